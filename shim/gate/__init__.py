"""The gate: a proxy in front of the API of a Docker daemon that judges each request before the daemon sees it.

`head` parses the head of a request, and `judge` decides, as a pure function of a request, a policy and grants.
"""
