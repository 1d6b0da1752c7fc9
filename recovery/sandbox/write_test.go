//go:build linux

package sandbox

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// attacks try to change something in $O, which is not writable. Each stands for
// itself, and as a grandchild in a session of its own.
var attacks = []string{
	`echo x > "$O/new"`,
	`echo x >> "$O/file"`,
	`: > "$O/file"`,
	`truncate -s 1 "$O/file"`,
	`dd if=/dev/zero of="$O/file" bs=1 count=3 conv=notrunc`,
	`rm -f "$O/file"`,
	`mv "$O/file" "$O/moved"`,
	`mv "$O/file" taken`,
	`echo mine > mine && mv mine "$O/"`,
	`ln "$O/file" "hard$$" && echo x > "hard$$"`,
	`ln -s "$O/file" "soft$$"; echo x > "soft$$"`,
	`ln -s "$O" "out$$"; echo x > "out$$/through"; rm -f "out$$/file"`,
	`mkdir "$O/dir"`,
	`rmdir "$O/empty"`,
	`mkfifo "$O/fifo"`,
	`ln -s x "$O/link"`,
	`cp -r sub "$O/"`,
	`cd "$O" && echo x > relative`,
	`exec 9< "$O" && echo x > /proc/self/fd/9/byfd`,
	`exec 9< "$O/file" && echo x > /proc/self/fd/9`,
	`echo x > "/proc/self/root$O/root"`,
	`for p in /proc/[0-9]*; do echo x > "$p/root$O/other"; done 2> /dev/null`,
	`mount --bind . "$O" && echo x > "$O/file"`,
	`unshare -Urm bash -c 'mount -o remount,bind,rw /; umount -l .superloop; echo x > "$O/nested"'`,
	`unshare -m bash -c 'mount -o remount,rw /; echo x > "$O/again"'`,
	`nsenter -t $PPID -m bash -c 'echo x > "$O/entered"'`,
}

// picture of a directory: names, kinds and contents; with modes what may be
// changed without writing as well.
func picture(t testing.TB, dir string, modes bool) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		fmt.Fprint(&b, path, " ", info.Mode().Type())
		if modes {
			fmt.Fprint(&b, info.Mode(), info.ModTime())
		}
		if info.Mode().IsRegular() {
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, " %x", sha256.Sum256(text))
		}
		b.WriteByte('\n')
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// modes are the levels that can be had by leaving mechanisms out.
var modes = map[Level][]Mechanism{
	LandlockMount: nil,
	Landlock:      {UseMount},
	Mount:         {UseLandlock},
	None:          {UseLandlock, UseMount},
}

// at prepares a job for a level, or skips the test if it is not to be had here.
func (w *world) at(t *testing.T, l Level, j job) job {
	t.Helper()
	j.Without = modes[l]
	if got := w.run(t, job{Measure: true, Without: j.Without}); got.Sandbox.Level != l {
		t.Skipf("level %s is not to be had here: %v", l, got.Sandbox.Notes)
	}
	return j
}

func TestWritesOutsideAreDenied(t *testing.T) {
	t.Parallel()
	for level := range modes {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			eachUser(t, func(t *testing.T, w *world) {
				if err := os.Mkdir(w.outside+"/empty", 0o755); err != nil {
					t.Fatal(err)
				}
				w.own(t, w.outside)
				script := "export O='" + w.outside + "'\n"
				for i, a := range attacks {
					w.write(t, fmt.Sprintf("%s/attack%d", w.repo, i), a)
					script += fmt.Sprintf("(. ./attack%d)\nsetsid -w bash ./attack%d\n", i, i)
				}
				w.own(t, w.repo)
				j := w.at(t, level, w.job(t, script+"echo end"))
				before := picture(t, w.outside, false)
				o := w.mustRun(t, j)
				if o.Result.Ended != "exited" || !strings.HasSuffix(o.Result.Stdout.Text(), "end\n") {
					t.Fatal(o)
				}
				after := picture(t, w.outside, false)
				if o.Sandbox.Level != level {
					t.Errorf("ran at %s: %v", o.Sandbox.Level, o.Sandbox.Notes)
				}
				if changed := before != after; changed != (level == None) {
					t.Errorf("before:\n%s\nafter:\n%s\n%v", before, after, o)
				}
			})
		})
	}
}

// Where everything else is mounted read-only, modes and times hold as well.
func TestModesOutsideHoldAtMount(t *testing.T) {
	t.Parallel()
	eachUser(t, func(t *testing.T, w *world) {
		j := w.at(t, Mount, w.job(t, ""))
		j.Command = fmt.Sprintf("export LC_ALL=C; cd '%s'; chmod 777 file .; touch -d 2001-01-01 file; chown 12 file; setfattr -n user.x -v y file; echo end", w.outside)
		before := picture(t, w.outside, true)
		o := w.mustRun(t, j)
		if after := picture(t, w.outside, true); before != after || !strings.Contains(o.Result.Stderr.Text(), "Read-only file system") {
			t.Errorf("before:\n%s\nafter:\n%s\n%v", before, after, o)
		}
	})
}

// What is allowed works: everything that a command does in its own places.
func TestWritesInsideWork(t *testing.T) {
	t.Parallel()
	const work = `set -e
mkdir -p a/b "$TMPDIR/t"; echo one > a/b/f; ln a/b/f a/g; mv a/b/f sub/deep/h; ln -s h sub/deep/s; echo two >> sub/deep/s
truncate -s 3 a/g; mkfifo a/fifo; chmod 700 a/g; touch -d 2001-01-01 a/g; rm -r a; mv sub/deep "$TMPDIR/t/"; mv "$TMPDIR/t/deep" sub/
echo three > "$CACHE/x"; cp "$CACHE/x" .; cat x sub/deep/s
for d in null zero full random urandom; do [ -w /dev/"$d" ]; done; echo gone > /dev/null; (echo full > /dev/full) 2>/dev/null && exit 9
echo to stderr > /dev/stderr; echo to stdout > /dev/stdout; cat < /dev/fd/0; cat <(echo substituted) <<< here; echo > "$TMPDIR/$RANDOM"
echo end`
	other := filepath.Join(shm, "cage-test-other")
	if err := os.WriteFile(other, nil, 0o600); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() {
		_ = os.Remove(other)
		if exists(filepath.Join(shm, "cage-test-own")) {
			t.Error("shared memory is not private")
		}
	})
	for level := range modes {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			eachUser(t, func(t *testing.T, w *world) {
				cache := filepath.Join(w.home, ".cache/new") // is made
				j := w.at(t, level, w.job(t, work))
				if level != Mount { // package managers link from their caches
					j.Command += `; ln "$CACHE/x" linked; echo "$CACHE/x" | xargs -I{} mv {} moved; [ moved -ef linked ]`
				}
				if level == Mount || level == LandlockMount {
					j.Command += "; echo > /dev/shm/cage-test-own; [ -z \"$(find /dev/shm -name 'cage-test-other')\" ]"
				}
				j.Writable = append(j.Writable, cache)
				j.Env = append(j.Env, "CACHE="+cache)
				o := w.mustRun(t, j)
				if o.Result.Code != 0 || !strings.HasSuffix(o.Result.Stdout.Text(), "end\n") || !strings.Contains(o.Result.Stdout.Text(), "three\non") {
					t.Error(o)
				}
				if info, err := os.Stat(cache); err != nil || info.Mode().Perm() != 0o700 {
					t.Errorf("%v %v", info, err)
				}
			})
		})
	}
}

// Raw devices would show, and change, everything.
func TestDevicesAreDead(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("needs root: others may not open a disk anyway")
	}
	for _, level := range []Level{LandlockMount, Mount} {
		w := newWorld(t, 0, "")
		j := w.at(t, level, w.job(t, ""))
		j.Command = `n=0; for d in $(find /dev -type b | head -5); do n=$((n+1)); head -c1 "$d" && echo READ "$d"; : 9<>"$d" && echo OPENED "$d"; done; mknod disk b 254 0 && head -c1 disk; echo $n tried`
		if got := w.mustRun(t, j).Result.Stdout.Text(); strings.Contains(got, "READ") || strings.Contains(got, "OPENED") || !strings.HasSuffix(got, "tried\n") {
			t.Errorf("%s: %q", level, got)
		}
	}
}
