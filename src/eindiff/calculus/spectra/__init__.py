"""Derivatives of functions of eigenvalues and singular values, also where these are equal.

With S = Q diag(λ) Q', a contraction in which a label a stands for eigenvalues, `Q_ia Q_ja k(λ_a) ..`, is smooth in S
although Q is not: its derivative in direction E is `Q_ip Q_ja k[λ_p, λ_a] (Q'EQ)_pa ..` with the divided difference of
k (Daleckii and Krein), and that is a contraction of the same kind. So before a sweep such contractions are closed:
their Q and λ are place holders that do not move, and one node beside them knows the derivative by S. Afterwards they
are opened again. What is no such contraction, one eigenvalue or an eigenvector, is differentiated through the gaps
between eigenvalues, which are NaN where there is none.
"""
