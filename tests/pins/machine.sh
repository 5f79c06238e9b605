# machine.sh ROOT VENV RECORDER MACHINE: in new mount and pid namespaces, makes the root of the cases, enters it, and starts machine.py there.
set -eu
root=$1 venv=$2 recorder=$3 machine=$4
mount --make-rprivate /
mount -t tmpfs -o mode=755 tmpfs "$root"
cd "$root"

# mine SOURCE: the host's directory or file at the same place, read only; a link as a link
mine() {
	mkdir -p ".$(dirname "$1")"
	if [ -L "$1" ]; then
		ln -s "$(readlink "$1")" ".$1"
		return
	fi
	if [ -d "$1" ]; then mkdir -p ".$1"; else : >".$1"; fi
	mount --bind "$1" ".$1"
	mount -o remount,bind,ro ".$1"
}

mkdir -p dev etc notes old opt/shim proc root run tmp usr/bin usr/sbin usr/local/bin usr/local/sbin opt/quiet var/log var/lib sys
mkdir -m 700 run/shim run/shim/c
chmod 1777 tmp notes
chmod 700 root
for directory in /bin /sbin /lib /lib32 /lib64 /libx32; do
	if [ -L $directory ]; then ln -s "$(readlink $directory)" .$directory; elif [ -d $directory ]; then mine $directory; fi
done
for directory in /usr/lib /usr/lib64; do
	if [ -d $directory ]; then mine $directory; fi
done
for program in /usr/bin/strace /usr/bin/unshare; do mine $program; done
# the interpreter that the build was made with: every link on the way to it, and its library
python=$venv/bin/python3
while [ -L "$python" ]; do
	target=$(readlink "$python")
	case $target in /*) ;; *) target=$(dirname "$python")/$target ;; esac
	case $target in "$venv"/*) ;; *) mine "$target" ;; esac
	python=$target
done
library=$(dirname "$(dirname "$python")")/lib
case $library in /usr/lib) ;; *) mine "$library" ;; esac

mount --bind "$venv" opt/shim
mount -o remount,bind,ro opt/shim
for place in usr/sbin/runc usr/bin/crun opt/quiet/runc; do cp "$recorder" $place; done
cp "$machine" machine.py
ln -s /run var/run
for node in "null 1 3" "zero 1 5" "full 1 7" "random 1 8" "urandom 1 9" "tty 5 0"; do
	set -- $node
	mknod -m 666 dev/$1 c $2 $3
done
mkdir dev/pts
mount -t devpts -o newinstance,ptmxmode=666 devpts dev/pts
ln -s pts/ptmx dev/ptmx
printf 'root:x:0:0:root:/root:/bin/sh\n' >etc/passwd
printf 'root:x:0:\n' >etc/group
mount -t proc proc proc
pivot_root . old
cd /
exec /opt/shim/bin/python3 -I -S -c '
import ctypes, os, runpy, sys
os.chdir("/")
if ctypes.CDLL(None).umount2(b"/old", 2) != 0:  # MNT_DETACH
    sys.exit("the old root cannot be left")
os.rmdir("/old")
runpy.run_path("/machine.py", run_name="__main__")
'
