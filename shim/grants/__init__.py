"""Grants: which subject may use which device, by exact name.

A subject is a name that the operator chooses: a repository, a team, an engine. A device that is not granted to it is
not given to its containers. The parts:

    reader     the file /etc/shim/grants.json, for those who decide by it: without lock, by stat(2)
    store      its changes, each a transaction under a lock
    changes    what each change makes of the grants
    audit      the log of changes, written before each change
    overlap    whether two names stand for the same hardware
    exclusive  the devices that are reserved for a subject

A subject never comes from a container, an image or a repository: so a copy or a fork, whose subject is another name,
has no grants.
"""
