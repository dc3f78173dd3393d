"""The broker's commands as typed Python: what is sent, and what becomes of the reply.

`queues`, `messages`, `dead`, `topics`, `exchanges`, `consumers` and `server` are written from the command table by
`python -m respmq.codegen.generate`: for each command a function that makes a `Call`, and a method for clients of
either kind.
"""
