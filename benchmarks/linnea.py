"""The application problems of Linnea (Barthels, Psarras, Bientinesi 2019), each with code by an expert.

An expert knows the properties, factorizes what is definite by Cholesky's method, never inverts, and multiplies from the
cheap side. Where a matrix is declared diagonal its array is the vector of its diagonal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy import linalg
from scipy.linalg.blas import dtrmm

Array = np.ndarray
Expert = Callable[..., tuple[Array, ...]]

factor = partial(linalg.cho_factor, lower=True, check_finite=False)
solved = partial(linalg.cho_solve, check_finite=False)
triangular = partial(linalg.solve_triangular, check_finite=False)


@dataclass(frozen=True)
class Problem:
    """Formulas with declarations, sizes, and the expert's code, which takes the arrays by their names."""

    text: str
    declared: str
    sizes: dict[str, int]
    expert: Expert


PROBLEMS: list[Problem] = []


def problem(text: str, declared: str, **sizes: int) -> Callable[[Expert], Expert]:
    """List a problem with its expert."""

    def add(expert: Expert) -> Expert:
        PROBLEMS.append(Problem(text, declared, sizes, expert))
        return expert

    return add


def half(A: Any, X: Array) -> Array:
    """The matrix Z with Z'Z = X' inv(A) X."""
    return triangular(A[0], X, lower=True)


@problem("b = inv(X'*X)*X'*y", "y(n); X(n,m)", n=2500, m=500)
def _1(X: Array, y: Array) -> tuple:
    return (solved(factor(X.T @ X), X.T @ y),)


@problem("b = inv(X'*inv(M)*X)*X'*inv(M)*y", "y(n); M(n,n) psd; X(n,m)", m=500, n=2500)
def _2(M: Array, X: Array, y: Array) -> tuple:
    F = factor(M)
    Z = half(F, X)
    return (solved(factor(Z.T @ Z), Z.T @ half(F, y)),)


@problem("x = W*(A'*inv(A*W*A')*b - c)", "b(m); c(n); A(m,n); W(n,n) positive diagonal", m=1000, n=2000)
def _3(A: Array, W: Array, b: Array, c: Array) -> tuple:
    Z = A * np.sqrt(W)
    return (W * (A.T @ solved(factor(Z @ Z.T), b) - c),)


@problem("xf = W*A'*inv(A*W*A')*(b - A*x); xo = W*(A'*inv(A*W*A')*A*x - c)",
         "b(m); c(n); x(n); A(m,n); W(n,n) positive diagonal", m=1000, n=2000)  # fmt: skip
def _4(A: Array, W: Array, b: Array, c: Array, x: Array) -> tuple:
    Z, Ax = A * np.sqrt(W), A @ x
    F = factor(Z @ Z.T)
    return W * (A.T @ solved(F, b - Ax)), W * (A.T @ solved(F, Ax) - c)


@problem("x = inv(inv(A')*B'*B*inv(A) + R'*L*R)*inv(A')*B'*B*inv(A)*y",
         "y(n); A(n,n); B(n,n); L(m,m) positive diagonal; R(m,n) upper", n=2000, m=1999)  # fmt: skip
def _5(A: Array, B: Array, L: Array, R: Array, y: Array) -> tuple:
    F = linalg.lu_factor(A, check_finite=False)
    C = linalg.lu_solve(F, B.T, trans=1, check_finite=False)
    Z = np.sqrt(L)[:, None] * R
    return (solved(factor(C @ C.T + Z.T @ Z), C @ (C.T @ y)),)


@problem("X10 = L10*inv(L00); X20 = L20 + inv(L22)*L21*inv(L11)*L10; X11 = inv(L11); X21 = -inv(L22)*L21",
         "L00(n,n) lower; L10(m,n); L11(m,m) lower; L20(k,n); L21(k,m); L22(k,k) lower",
         n=2000, m=200, k=2000)  # fmt: skip
def _6(L00: Array, L10: Array, L11: Array, L20: Array, L21: Array, L22: Array) -> tuple:
    X21 = triangular(L22, L21, lower=True)
    X10 = triangular(L00, L10.T, lower=True, trans=1).T
    X11 = linalg.lapack.dtrtri(L11.T, lower=0)[0].T
    return X10, L20 + X21 @ triangular(L11, L10, lower=True), X11, -X21


@problem("Xa = Xb + inv(inv(B) + H'*inv(R)*H)*(Y - H*Xb)", "B(n,n) psd; H(n,n); R(n,n) psd; Xb(n,N); Y(n,N)",
         N=200, n=2000)  # fmt: skip
def _7(B: Array, H: Array, R: Array, Xb: Array, Y: Array) -> tuple:
    inverse = linalg.lapack.dpotri(factor(B)[0], lower=1)[0]
    Z = half(factor(R), H)
    return (Xb + solved(factor(inverse + Z.T @ Z), Y - H @ Xb),)


@problem("dX = inv(inv(B) + H'*inv(R)*H)*H'*inv(R)*(Y - H*Xb)", "B(n,n) psd; H(m,n); R(m,m) psd; Xb(n,N); Y(m,N)",
         N=200, n=5000, m=1000)  # fmt: skip
def _8(B: Array, H: Array, R: Array, Xb: Array, Y: Array) -> tuple:
    HB = H @ B
    return (HB.T @ solved(factor(R + HB @ H.T), Y - H @ Xb),)


@problem("dX = X*(H*X)'*inv(R + H*X*(H*X)')*(Y - H*Xb)", "H(m,n); R(m,m) psd; X(n,n) lower; Xb(n,N); Y(m,N)",
         N=200, n=5000, m=1000)  # fmt: skip
def _9(H: Array, R: Array, X: Array, Xb: Array, Y: Array) -> tuple:
    HX = dtrmm(1.0, X.T, H.T, lower=0).T
    right = HX.T @ solved(factor(R + HX @ HX.T), Y - H @ Xb)
    return (dtrmm(1.0, X.T, right.T, side=1, lower=0).T,)


@problem("x = inv(H'*H + lam*sigma_sq*eye(n))*(H'*y + lam*sigma_sq*(v_k - u_k))",
         "u_k(n); v_k(n); y(m); H(m,n); lam positive; sigma_sq positive", n=5000, m=1000)  # fmt: skip
def _10(H: Array, lam: Array, sigma_sq: Array, u_k: Array, v_k: Array, y: Array) -> tuple:
    c = lam * sigma_sq
    G = H @ H.T
    G.flat[:: len(G) + 1] += c
    right = H.T @ y + c * (v_k - u_k)
    return ((right - H.T @ solved(factor(G), H @ right)) / c,)


@problem("H_dag = H'*inv(H*H'); y_k = H_dag*y + (eye(n) - H_dag*H)*x", "x(n); y(m); H(m,n)", n=5000, m=1000)
def _11(H: Array, x: Array, y: Array) -> tuple:
    H_dag = solved(factor(H @ H.T), H).T
    return H_dag, x + H_dag @ (y - H @ x)


@problem("Lambda = S*inv(S'*A*W*A'*S)*S'; Xout = Xin + W*A'*Lambda*(eye(n) - A*Xin)",
         "A(n,n); S(n,q); W(n,n) psd; Xin(n,n)", n=5000, q=500)  # fmt: skip
def _12(A: Array, S: Array, W: Array, Xin: Array) -> tuple:
    SA = S.T @ A
    SAW = SA @ W
    F = factor(SAW @ SA.T)
    Z = half(F, S.T)
    return Z.T @ Z, Xin + SAW.T @ solved(F, S.T - SA @ Xin)


@problem("Lambda = S*inv(S'*A'*W*A*S)*S'; Xout = Xin + (eye(n) - Xin*A')*Lambda*A'*W",
         "A(n,n); S(n,q); W(n,n) psd; Xin(n,n)", n=5000, q=500)  # fmt: skip
def _13(A: Array, S: Array, W: Array, Xin: Array) -> tuple:
    AS = A @ S
    WAS = W @ AS
    F = factor(WAS.T @ AS)
    Z = half(F, S.T)
    return Z.T @ Z, Xin + (S - Xin @ (A.T @ S)) @ solved(F, WAS.T)


@problem("Lambda = S*inv(S'*A*W*A*S)*S'; Theta = Lambda*A*W; Mk = Xin*A - eye(n); "
         "Xout = Xin - Mk*Theta - (Mk*Theta)' + Theta'*(A*Xin*A - A)*Theta",
         "A(n,n) symmetric; S(n,q); W(n,n) psd; Xin(n,n) symmetric", n=5000, q=500)  # fmt: skip
def _14(A: Array, S: Array, W: Array, Xin: Array) -> tuple:
    AS = A @ S
    WAS = W @ AS
    F = factor(WAS.T @ AS)
    Z, T = half(F, S.T), solved(F, WAS.T)
    Mk = Xin @ A
    Mk.flat[:: len(Mk) + 1] -= 1
    XAS = Xin @ AS
    MT = (XAS - S) @ T
    return Z.T @ Z, S @ T, Mk, Xin - MT - MT.T + T.T @ ((AS.T @ XAS - S.T @ AS) @ T)


@problem("Xout = S*inv(S'*A*S)*S' + (eye(n) - S*inv(S'*A*S)*S'*A)*Xin*(eye(n) - A*S*inv(S'*A*S)*S')",
         "A(n,n) psd; S(n,q); Xin(n,n) symmetric", n=5000, q=500)  # fmt: skip
def _15(A: Array, S: Array, Xin: Array) -> tuple:
    AS = A @ S
    T = solved(factor(S.T @ AS), S.T)
    XAS = Xin @ AS
    M = XAS @ T
    return (Xin - M - M.T + (S + T.T @ (AS.T @ XAS)) @ T,)


@problem("Bout = k*inv(k - 1)*Bin*(eye(n) - A'*Wk*inv((k - 1)*eye(l) + Wk'*A*Bin*A'*Wk)*Wk'*A*Bin)",
         "A(m,n); Bin(n,n) psd; Wk(m,l); k positive", n=1000, m=5000, l=625)  # fmt: skip
def _16(A: Array, Bin: Array, Wk: Array, k: Array) -> tuple:
    V = A.T @ Wk
    BV = Bin @ V
    G = V.T @ BV
    G.flat[:: len(G) + 1] += k - 1
    Z = half(factor(G), BV.T)
    return (k / (k - 1) * (Bin - Z.T @ Z),)


@problem("B = inv(lam)*(eye(n) - A'*Wk*inv(lam*eye(l) + Wk'*A*A'*Wk)*Wk'*A)", "A(m,n); Wk(m,l); lam positive",
         n=1000, m=5000, l=625)  # fmt: skip
def _17(A: Array, Wk: Array, lam: Array) -> tuple:
    V = A.T @ Wk
    G = V.T @ V
    G.flat[:: len(G) + 1] += lam
    Z = half(factor(G), V.T)
    B = Z.T @ Z / -lam
    B.flat[:: len(B) + 1] += 1 / lam
    return (B,)


@problem("x = inv(A'*A + Gamma'*Gamma)*A'*b", "b(n); A(n,m); Gamma(m,m)", n=3000, m=200)
def _18(A: Array, Gamma: Array, b: Array) -> tuple:
    return (solved(factor(A.T @ A + Gamma.T @ Gamma), A.T @ b),)


@problem("x = inv(A'*A + alpha_sq*eye(m))*A'*b", "b(n); A(n,m); alpha_sq positive", n=3000, m=200)
def _19(A: Array, alpha_sq: Array, b: Array) -> tuple:
    G = A.T @ A
    G.flat[:: len(G) + 1] += alpha_sq
    return (solved(factor(G), A.T @ b),)


@problem("x = inv(Q + A'*P*A)*(A'*P*b + Q*x0)", "b(n); x0(m); A(n,m); P(n,n) psd; Q(m,m) psd", n=3000, m=200)
def _20(A: Array, P: Array, Q: Array, b: Array, x0: Array) -> tuple:
    PA = P @ A
    return (solved(factor(Q + PA.T @ A), PA.T @ b + Q @ x0),)


@problem("x = x0 + inv(A'*P*A + Q)*A'*P*(b - A*x0)", "b(n); x0(m); A(n,m); P(n,n) psd; Q(m,m) psd", n=3000, m=200)
def _21(A: Array, P: Array, Q: Array, b: Array, x0: Array) -> tuple:
    PA = P @ A
    return (x0 + solved(factor(Q + PA.T @ A), PA.T @ (b - A @ x0)),)


@problem("xout = Cx*A'*inv(A*Cx*A' + Cz)*(y - A*x) + x", "x(n); y(m); A(m,n); Cx(n,n) psd; Cz(m,m) psd",
         n=2000, m=1500)  # fmt: skip
def _22(A: Array, Cx: Array, Cz: Array, x: Array, y: Array) -> tuple:
    AC = A @ Cx
    return (x + AC.T @ solved(factor(AC @ A.T + Cz), y - A @ x),)


@problem("xout = inv(A'*inv(Cz)*A + inv(Cx))*A'*inv(Cz)*(y - A*x) + x", "x(n); y(m); A(m,n); Cx(n,n) psd; Cz(m,m) psd",
         n=2000, m=1500)  # fmt: skip
def _23(A: Array, Cx: Array, Cz: Array, x: Array, y: Array) -> tuple:
    return _22(A, Cx, Cz, x, y)


@problem("K = Cin*A'*inv(Cz + A*Cin*A'); xout = x + K*(y - A*x); Cout = (eye(n) - K*A)*Cin",
         "x(n); y(m); A(m,n); Cin(n,n) psd; Cz(m,m) psd", n=2000, m=1500)  # fmt: skip
def _24(A: Array, Cin: Array, Cz: Array, x: Array, y: Array) -> tuple:
    AC = A @ Cin
    K = solved(factor(AC @ A.T + Cz), AC).T
    return K, x + K @ (y - A @ x), Cin - K @ AC


@problem("Kk = P_b*H'*inv(R + H*P_b*H'); x_a = x_b + Kk*(zk - H*x_b); P_a = (eye(n) - Kk*H)*P_b",
         "x_b(n); zk(m); H(m,n); P_b(n,n) psd; R(m,m) psd", n=400, m=400)  # fmt: skip
def _25(H: Array, P_b: Array, R: Array, x_b: Array, zk: Array) -> tuple:
    return _24(H, P_b, R, x_b, zk)
