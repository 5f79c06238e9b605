"""Node labels: what a node has, for the scheduler, as node feature discovery takes it.

    Request ──> collect ──> nvidia, mig, machine    names of GPU feature discovery
                   │
                   └──────> devices                 the other vendors, by kind
    labels  ──> feature_file                        a file that is replaced whole, nothing where another program labels

`watch` does it again whenever the host has changed.
"""
