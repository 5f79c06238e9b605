"""Deviations: where this library does not do what the CDI reference library does, and why.

Used by the conformance run, which accepts a deviating result only under an id of this table and only when it is
exactly what the rule states, and by the documentation. For a deviation about a file the id is its finding's `rule`.
"""

from __future__ import annotations

TABLE: dict[str, str] = {
    "hook-relative": (
        "A hook whose path is relative refuses the file. The specification asks for an absolute path and the OCI "
        "runtime specification, too; a relative one is looked up from wherever the runtime happens to be started, "
        "as root."
    ),
    "null-item": (
        "A null item in deviceNodes, hooks, mounts or netDevices refuses the file. It crashes the reference, and with "
        "it the engine that reads the directory."
    ),
    "trailing-text": (
        "Text behind the first document refuses the file. The reference never looks at it, so devices that somebody "
        "wrote there silently do not exist. Empty documents behind a last '---' are let through."
    ),
    "field-twice": (
        "A field that stands twice in one mapping, in two spellings that differ in case only, refuses the file, as "
        "two equal keys do. In the reference the spelling that sorts last wins, mixed with parts of the other."
    ),
    "too-many-nodes": (
        "A file of more than 500000 nodes, those behind aliases counted each time, is refused. The reference limits "
        "aliases by their share only, which a large file stays under while costing seconds at every start of a "
        "container. A spec with 1000 devices has 30000."
    ),
    "conflict-below": (
        "A device that two files of one directory define is served by a higher directory that defines it once. In the "
        "reference the conflict also takes the good device away, so a leftover file in /etc/cdi disables what an "
        "administrator put above it."
    ),
    "unlistable-directory": (
        "A directory that cannot be listed is reported, and the scan goes on. The reference ends the scan without a "
        "word, so that more important directories are not read."
    ),
    "not-regular": (
        "A pipe, a socket or a device in a spec directory is refused without being opened. The reference waits for "
        "ever for somebody to write into a pipe."
    ),
    "permissions-none": (
        "A device node with permissions 'none' gets no cgroup rule. The reference adds one that allows no access, "
        "which says the same to the kernel, but makes runc refuse the container."
    ),
    "node-negative-number": (
        "A device node with a negative major or minor number is refused when it is asked for. The reference passes it "
        "on; in the cgroup rule -1 means every number, which opens all devices of the host to the container."
    ),
    "mounts-in-place": (
        "A create (not `shim cdi inject`) leaves the mounts of config.json in their order, and puts those of a spec "
        "in: behind the last that lies at their destination or above it, before the next that lies below it, or at the "
        "end. The reference sorts the whole list by depth, so that a mount which covers another one on purpose, such "
        "as a tmpfs over a directory with secrets, comes before it and uncovers it."
    ),
    "too-large": "A file of more than 4 MiB is not read; the reference has no limit. 1000 devices take 0.6 MiB.",
    "node-missing": (
        "Discovery: a device node that the host does not have is not written; a device that is of no use without it "
        "is left out and reported. The references of AMD and Intel write such nodes, AMD's with the number 0, and "
        "every engine refuses a container that asks for one of them. NVIDIA's writes a MIG device without its "
        "capability."
    ),
    "all-of-none": (
        "Discovery: without a GPU there is no device `all`. AMD's reference writes one that has /dev/kfd alone, so "
        "that a container that asks for all GPUs starts and can compute on nothing."
    ),
    "pci-domain": (
        "Discovery: a GPU in a PCI domain of more than four digits is a GPU like others. AMD's reference passes over "
        "it, NVIDIA's finds no DRM node of it."
    ),
    "vfio-gpu": (
        "Discovery: each GPU of Intel that VFIO holds is written. Intel's reference loses all but one where it names "
        "GPUs by their cards, since these have none, and those whose model it does not know."
    ),
    "gaudi-module-id": (
        "Discovery: a Gaudi card whose driver does not show its module_id is written; its nodes are there, and a "
        "container that computes on one card does not need the number. Intel's reference leaves it out."
    ),
    "unique-id-zero": (
        "Discovery: a unique id of 0, as integrated GPUs have it, is none. AMD's reference shows it as an id, by which "
        "it then selects all such GPUs."
    ),
    "library-names": (
        "Discovery: a library has its DT_SONAME as a link, and the name under which the driver has it where that is a "
        "link on the host. NVIDIA's reference makes such links only where the host has them and leaves the names of "
        "EGL's platform libraries to ldconfig in the container, so that a driver container in which ldconfig never "
        "ran gives half of them; of a library that is a link it mounts the target without the name."
    ),
    "no-library": (
        "Discovery: a file with the name of a library is mounted only if it is an ELF library for the machine. "
        "NVIDIA's reference mounts text and empty files, too."
    ),
    "libcuda-directories": (
        "Discovery: NVIDIA_CTK_LIBCUDA_DIR has the directories that have libcuda or libnvidia-ml. NVIDIA's reference "
        "adds those to which links of other libraries lead, and what is left of their paths without the driver's "
        "root, taken as text."
    ),
    "daemon-sockets": (
        "Discovery: /tmp/nvidia-mps is mounted when it is a directory of root, and a daemon's socket is also looked "
        "up on the machine when the driver has a root of its own. NVIDIA's reference takes no directories, which the "
        "first always is, and none of the machine's sockets."
    ),
    "firmware-path": (
        "Discovery: a firmware file is mounted from the directory from which the kernel takes it, the custom path of "
        "the running kernel included. NVIDIA's reference mounts those of all directories, and looks for the custom "
        "path, which is one of the machine, below the driver's root."
    ),
    "explicit-libraries": (
        "Discovery: with enable-explicit-driver-libraries libnvidia-api.so.1 is a library, too. NVIDIA's reference "
        "has it in its list and finds only versions of two numbers."
    ),
    "data-directories": (
        "Discovery: files are looked up in directories that the command line names, then in the usual ones. NVIDIA's "
        "reference takes XDG_DATA_DIRS of whoever starts it in place of these: two users get different specs of one "
        "host."
    ),
    "resolved-root": (
        "Discovery: a driver's root through a link, with `..`, or relative gives the same spec as its path without "
        "these. NVIDIA's reference then mounts no library, or writes relative paths, with status 0. It makes links of "
        "DRM nodes at paths that have the root before them."
    ),
    "driver-directories": (
        "Discovery: libraries are looked up in /usr/lib as well, by links that are absolute within the driver's root, "
        "and in directories of the command line that are given without that root before them. NVIDIA's reference "
        "refuses."
    ),
    "required-missing": (
        "Discovery: what a device cannot work without, and is missing, such as /dev/nvidiactl or libcuda, is an "
        "error, beside the spec of the rest. NVIDIA's reference writes the spec with status 0."
    ),
    "no-tracker": (
        "The commands of AMD's gpu-tracker, which gives a GPU to a single container, have no counterpart in discovery: "
        "its case is counted and not compared."
    ),
    "own-class": (
        "Discovery: the modes gds, mofed, gdrcopy, nvswitch and imex have classes of their own (imex-channel for "
        "imex), and management has the kind management.nvidia.com/gpu. The reference gives all of them "
        "nvidia.com/gpu, so that the specs of two modes in a directory make each other's devices invalid; --class has "
        "that kind here, too."
    ),
    "unknown-word": (
        "Discovery: a feature, a hook, a device or a list of files that does not exist is refused with its name. The "
        "reference takes any feature and hook, passes over lists, and over devices in a mode that has `all` alone. "
        "Labels: a MIG strategy that does not exist is refused also on a node without GPUs."
    ),
    "tegra-root": (
        "Discovery: with a driver root, links of a Tegra system's lists are made at their path within the root, and "
        "/etc/nv_tegra_release is that of the root if it has one. The reference makes links at paths of the host, "
        "which dangle in the container, and mounts that file only if the host has it outside of the root."
    ),
    "tegra-pattern": (
        "Discovery: a pattern of ignored links without / is of their names. In the reference it is of the whole path, "
        "so that it matches nothing, without a word."
    ),
    "tegra-gpus": (
        "Discovery: each discrete GPU of a Tegra system is a device beside the integrated GPU. In the reference a "
        "second discrete GPU makes the whole machine one device 0."
    ),
    "tegra-nothing": (
        "Discovery: without any entry in a Tegra system's lists nothing is written. The reference writes a GPU that "
        "gives a container the name of the release and no device."
    ),
    "sandboxutils": (
        "Discovery: libnvidia-sandboxutils is not asked. What the reference asks it, the driver's version and the DRM "
        "nodes of a GPU, is known from the kernel, NVML and sysfs; where the library has another answer the driver "
        "that runs is right."
    ),
    "healthy-devices": (
        "Discovery: a GPU or MIG device that cannot be used is left out and reported, and the others are written. "
        "NVIDIA's reference writes nothing when one of them is lost, has no node, or has a profile that it does not "
        "know."
    ),
    "driver-version": (
        "Discovery: the driver's version comes from the kernel module or NVML, and without it nothing is written. "
        "NVIDIA's reference takes it from the name of the first file that looks like libcuda, which may be an old "
        "one."
    ),
    "unusable-device": (
        "Discovery: a GPU in MIG mode as a whole, a chip that only drives displays, and a device that lacks a node "
        "are refused when they are asked for. NVIDIA's reference writes them, although no program can use them."
    ),
    "labels-value": (
        "Labels: each value is one that Kubernetes takes: shortened to 63 characters, a model's name before what marks "
        "it (-MIG-…, -SHARED), and without a dash, dot or underscore at an end. The reference writes a name of any "
        "length, and node feature discovery then leaves the label out."
    ),
    "labels-models": (
        "Labels: of several models on a node each has labels of its own, gpu.model.PRODUCT.count and .memory, and "
        "gpu.* describe one of them as a whole, always the same: that with most GPUs outside MIG mode. In the "
        "reference the model that stands for the node is random, with memory and compute capability left over from "
        "another."
    ),
    "labels-version": (
        "Labels: a driver version that is not X.Y or X.Y.Z costs the labels of the driver's version, with a warning. "
        "The reference writes no label at all."
    ),
    "labels-vgpu": (
        "Labels: a PCI capability that looks like a vGPU's and cannot be read costs the labels about vGPUs, with a "
        "warning. The reference writes no label at all, crashes, or never ends."
    ),
    "labels-class": (
        "Labels: the mode is graphics for every VGA controller, whatever its interface byte, and unknown for a GPU of "
        "another PCI class. The reference crashes."
    ),
    "labels-library": (
        "Labels: a function that the management library does not have costs the label that needs it; fabric "
        "information is read by the newer function where the older is missing; the parent of a MIG device is not asked "
        "for, since it is known. The reference crashes, or writes no label at all."
    ),
    "labels-vfio": (
        "Labels: a GPU that VFIO holds has no label about memory, compute capability, architecture and CUDA, which are "
        "unknown. The reference writes the size of its address ranges, in bytes, a compute capability of -1, and CUDA "
        "0.0."
    ),
    "labels-file": (
        "Labels: they are written as a feature file. The reference's default, an object of the cluster's API, needs "
        "rights in the cluster, and stays when the program ends."
    ),
    "labels-config": (
        "Labels: in NVIDIA's configuration file a key that stands twice, and text behind the first document, are "
        "refused. The reference takes one of them without a word."
    ),
}
