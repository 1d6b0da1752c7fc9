package api

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// tables are the kernel's lists of the connections of this network namespace.
var tables = []string{"net/tcp", "net/tcp6"}

// connState is a row's state, as include/net/tcp_states.h numbers it.
const stateListen = 10

// row is a line of a table.
type row struct {
	local, remote netip.AddrPort
	state         int
	uid           int
	inode         uint64 // 0: no process holds it any more
}

// maxTable bounds a table in bytes: some 400,000 connections.
const maxTable = 64 << 20

// readTable calls f for each row of a table, until f returns false.
func readTable(file string, f func(row) bool) error {
	in, err := os.Open(file)
	if err != nil {
		return err
	}
	defer in.Close()
	data, err := io.ReadAll(io.LimitReader(in, maxTable))
	if err != nil {
		return err
	}
	for line := range bytes.Lines(data) {
		if r, ok := parseRow(line); ok && !f(r) {
			return nil
		}
	}
	return nil
}

// parseRow reads a line of proc_pid_net(5): "sl local rem st tx:rx tr:when retrnsmt uid timeout inode ...".
func parseRow(line []byte) (r row, ok bool) {
	f := bytes.Fields(line)
	if len(f) < 10 {
		return r, false
	}
	state, err := strconv.ParseUint(string(f[3]), 16, 8)
	uid, err2 := strconv.Atoi(string(f[7]))
	inode, err3 := strconv.ParseUint(string(f[9]), 10, 64)
	var ok1, ok2 bool
	r.local, ok1 = parseAddress(string(f[1]))
	r.remote, ok2 = parseAddress(string(f[2]))
	r.state, r.uid, r.inode = int(state), uid, inode
	return r, ok1 && ok2 && errors.Join(err, err2, err3) == nil
}

// parseAddress reads ADDRESS:PORT. The address is one or four words of 32 bits, each in the order of this machine.
func parseAddress(s string) (netip.AddrPort, bool) {
	at, port, _ := bytes.Cut([]byte(s), []byte(":"))
	n, err := strconv.ParseUint(string(port), 16, 16)
	b, herr := hex.DecodeString(string(at))
	if err != nil || herr != nil || len(b) != 4 && len(b) != 16 {
		return netip.AddrPort{}, false
	}
	for i := 0; i < len(b); i += 4 {
		binary.NativeEndian.PutUint32(b[i:], binary.BigEndian.Uint32(b[i:]))
	}
	addr, _ := netip.AddrFromSlice(b)
	return netip.AddrPortFrom(addr.Unmap(), uint16(n)), true
}

// client finds the processes that hold the other end of a connection: local is the daemon's end, remote theirs. For a
// connection that no process of this machine holds any more, or whose holder does not show its files, the error is
// errNoOwner. uid is the user of the socket, -1 if it is not known.
func client(procfs string, local, remote netip.AddrPort) (pids []int, uid int, err error) {
	match := func(r row) bool { return r.local == remote && r.remote == local && r.inode != 0 }
	for range 3 { // the kernel's list may leave a row out while others come and go
		r, err := findRow(procfs, match)
		if err != nil {
			return nil, -1, err
		}
		if r == nil {
			continue
		}
		if pids := holders(procfs, r.inode); len(pids) > 0 {
			return pids, r.uid, nil
		}
		return nil, r.uid, errNoOwner
	}
	return nil, -1, errNoOwner
}

func findRow(procfs string, match func(row) bool) (found *row, err error) {
	for _, table := range tables {
		terr := readTable(filepath.Join(procfs, table), func(r row) bool {
			if match(r) {
				found = &r
			}
			return found == nil
		})
		if found != nil {
			return found, nil
		}
		if terr != nil && !errors.Is(terr, os.ErrNotExist) { // a kernel without IPv6
			err = terr
		}
	}
	return nil, err
}

// holders returns the processes that have the socket open, as far as they show their files.
func holders(procfs string, inode uint64) (pids []int) {
	want := fmt.Sprintf("socket:[%d]", inode)
	all, _ := os.ReadDir(procfs) // an error leaves the holders unknown
	for _, p := range all {
		pid, err := strconv.Atoi(p.Name())
		if err != nil {
			continue
		}
		dir := filepath.Join(procfs, p.Name(), "fd")
		fds, _ := os.ReadDir(dir) // it has ended, or is somebody else's
		if slices.ContainsFunc(fds, func(fd os.DirEntry) bool {
			to, err := os.Readlink(filepath.Join(dir, fd.Name()))
			return err == nil && to == want
		}) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// listener returns the process that listens on a port of this machine, in words, "" if it is not known.
func listener(at netip.AddrPort) string {
	r, _ := findRow("/proc", func(r row) bool {
		return r.state == stateListen && r.local.Port() == at.Port() && (r.local.Addr() == at.Addr() || r.local.Addr().IsUnspecified())
	})
	if r == nil {
		return ""
	}
	for _, pid := range holders("/proc", r.inode) {
		return fmt.Sprintf("process %d, %s", pid, exeOf(pid))
	}
	return fmt.Sprintf("a process of the user with uid %d", r.uid)
}

func exeOf(pid int) string {
	exe, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)) // it has ended, or does not show it
	return exe
}
