"""The device plugin of a kubelet: the units of the CDI specs, as extended resources.

    settings      node.toml: which kinds, names, units, replicas
    units         which device names of a kind are units, and why the others are not
    presence      what of a unit is there: nodes, mounts, its PCI device and driver
    exclusive     which units are granted exclusively on this host
    topology      NUMA node and path in the tree of PCI
    inventory     all of these at one moment: resources with their units, each healthy or with the cause why not
    form          CDI names or annotation, by the kubelet and the engine
    preferred     which of the free ids are preferred (pure)
    allocation    which answer a request gets (pure)
    library       grpcio and protobuf, loaded late
    messages      the kubelet's API as data
    endpoint      a resource as a gRPC service on its socket
    kubelet       the kubelet's socket: registration
    service       the process

Only library, messages, endpoint and kubelet know gRPC.

Source: https://kubernetes.io/docs/concepts/extend-kubernetes/compute-storage-net/device-plugins/
"""
