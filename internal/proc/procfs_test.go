//go:build linux

package proc

import (
	"fmt"
	"os"
	"testing"

	"pgregory.net/rapid"
)

func TestParseStatProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := stat{
			pid: rapid.IntRange(1, 1<<22).Draw(t, "pid"), ppid: rapid.IntRange(0, 1<<22).Draw(t, "ppid"),
			group: rapid.IntRange(0, 1<<22).Draw(t, "group"), session: rapid.IntRange(0, 1<<22).Draw(t, "session"),
			state: rapid.SampledFrom([]byte("RSDZTX")).Draw(t, "state"), start: rapid.Uint64().Draw(t, "start"),
			kernel: rapid.Bool().Draw(t, "kernel"),
		}
		flags := 0x400000
		if want.kernel {
			flags |= kernelThread
		}
		name := rapid.StringMatching(`[() a-zZ0-9\n]{0,15}`).Draw(t, "name")
		line := fmt.Sprintf("%d (%s) %c %d %d %d 0 -1 %d 0 0 0 0 0 0 0 0 20 0 1 0 %d 1000 10\n",
			want.pid, name, want.state, want.ppid, want.group, want.session, flags, want.start)
		if got, ok := parseStat([]byte(line)); !ok || got != want {
			t.Fatalf("%q: %+v %v", line, got, ok)
		}
		parseStat([]byte(line[:rapid.IntRange(0, len(line)).Draw(t, "cut")])) // must not panic
	})
}

func TestOwnStat(t *testing.T) {
	t.Parallel()
	s, ok := readStat(os.Getpid())
	if !ok || s.pid != os.Getpid() || s.ppid != os.Getppid() || s.dead() || s.start == 0 {
		t.Errorf("%+v %v", s, ok)
	}
}

func TestCgroupDir(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ line, path, want string }{
		{"35 24 0:30 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw", "/user.slice/a", "/sys/fs/cgroup/user.slice/a"},
		{"35 24 0:30 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw", "/", "/sys/fs/cgroup/unified"},
		{"35 24 0:30 /docker/x /sys/fs/cgroup rw - cgroup2 cgroup rw", "/docker/x/y", "/sys/fs/cgroup/y"},
		{"35 24 0:30 /docker/x /sys/fs/cgroup rw - cgroup2 cgroup rw", "/docker/xy", ""},
		{"35 24 0:30 /../.. /sys/fs/cgroup rw - cgroup2 cgroup rw", "/", ""},
		{`35 24 0:30 / /mnt/my\040groups rw - cgroup2 none rw`, "/a", "/mnt/my groups/a"},
		{"35 24 0:30 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids", "/a", ""},
		{"35 24 0:30 / /cgroup2 rw - ext4 /dev/sda rw", "/a", ""},
		{"garbage", "/a", ""},
	} {
		if got, ok := cgroupDir(c.line, c.path); got != c.want || ok != (c.want != "") {
			t.Errorf("%s, %s: %q %v", c.line, c.path, got, ok)
		}
	}
}
