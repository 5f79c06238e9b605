"""Engines: shim is registered as a runtime of containerd, CRI-O, docker and podman, verified, and removed again.

Each engine is a package with a subclass of `contract.Engine`: where its configuration is, its meaning, the keys that
register a runtime, and its faults. They describe edits as keys and values and write nothing. The rest is common to all
engines; of `shim.create` it may import `record_files` and `record_reader`, which read the records of creates:

    contract      the mandatory and optional methods of an engine
    table         the engines, one line each
    model         the values that the modules pass to each other
    texts         change single keys of a text and leave every other byte: TOML, JSON, templates of k3s
    launcher      whether the launcher may be run as root; the link to the low-level runtime
    configure     the recipe of configure
    remove        the recipe of remove
    replaced      entries of a vendor's runtimes that go when shim takes their place
    refusals      what stops both before anything is written
    undo_records  the changes of configure, with the former bytes
    transaction   files that are written together, and restored
    runtime_programs  programs of runtimes, as an engine looks for them
    verify        findings, from the files and from the running daemon
    sources       which annotations, variables and mounts count, by shim's own configuration
    spec_dirs     the spec directories of shim beside those of the engine's own CDI
    vendors       runtimes of vendors, and lost_requests: those that they take and shim does not
    running       the containers that run now, by the config.json of each
    in_use        those of them that need a launcher of shim, by their monitors and by the records of creates
    mentions      the lines of engines' files and of specs that name a launcher
    manifest      RuntimeClass and Pod
"""
