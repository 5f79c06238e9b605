"""Discovery: from the devices of a host to their CDI specs.

    Wish, Host ──> Discovery ──> documents ──> files
           (vendors/)    (drafts)     (output)

Each vendor's module reads the host, through one Host object alone, and returns a Discovery: what devices there are, and
drafts of specs, in which each device is a set of edits. What is common to all vendors is done once and here: names,
`all`, the selection by --device, the hook, order, version, and the files.

A driver may lie in a root of its own (--driver-root) and the device nodes in another (--dev-root). Both are Trees.
"""
