"""The gate: a proxy in front of the API of a Docker daemon that judges each request before the daemon sees it.

`judge` decides, as a pure function of a request, a policy and grants. `head`, `bodies` and `relay` are HTTP/1.1 on
sockets, `serve` listens. `grants`, `policy_file`, `daemon` and `nodes` read what a decision depends on, `verify` checks
a deployment. Nothing that a client sends reaches the daemon as it was received: what was judged is encoded anew.
"""
