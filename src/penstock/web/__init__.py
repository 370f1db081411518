"""The dashboard: one live page over the logs of queries, read only from disk.

`app` and `access` are the server, `board` finds logs, `followed` is the base of `guarded` and `network`. `sentences`
has the texts, and `why` answers why a row was dropped.
"""

#: The port of the page unless another is asked for.
PORT = 7410
