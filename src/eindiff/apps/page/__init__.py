"""`eindiff serve`: a page in the browser, and the JSON API that it talks to.

`main` is the command, `app` the web application, `workers` the processes that do the work and are ended when it takes
too long, `tasks` what they do: plain functions from a request to an answer. `models` says what both look like.
"""
