package fleetdrill

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/superloop/superloop/internal/testkit"
)

// TestPostgreSQL runs loops on Temporal's production server with PostgreSQL as its store, and kills the database for two
// minutes. It is skipped where one of the programs is not there.
func TestPostgreSQL(t *testing.T) {
	down := time.Duration(testkit.Sample(0, 20, 120)) * time.Second
	if down == 0 {
		t.Skip("a database that is away for a while takes minutes: SUPERLOOP_SLOW_TESTS=all go test -v -run PostgreSQL ./internal/tools/fleetdrill")
	}
	bins, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb") // Debian puts them beside PATH, by version
	if len(bins) == 0 {
		t.Skip("the drill needs PostgreSQL: apt-get install postgresql")
	}
	for program, from := range map[string]string{"temporal-server": "cmd/server", "temporal-sql-tool": "cmd/tools/sql", "temporal": ""} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("the drill needs %s on PATH: go install go.temporal.io/server/%s@v1.32.1 builds it in some ten minutes, under its last name", program, from)
		}
	}
	db := &database{bin: filepath.Dir(bins[len(bins)-1])}
	w, err := newWorld(t, func(w *world, port int) error { return db.serve(w, port) })
	defer w.end()
	if err != nil {
		t.Fatal(err)
	}
	loops := testkit.Sample(0, 2, 8)
	said, err := noDatabase(w, db, loops, down)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(said)
	if said, err = approveTime(w, loops, 0); err != nil {
		t.Fatal(err)
	}
	t.Log("from an approval to its effect: ", said)
}

func noDatabase(w *world, db *database, loops int, down time.Duration) (string, error) {
	waiting, err := w.all(loops, 1, 0, approval)
	if err != nil {
		return "", err
	}
	if err := await(3*time.Minute, "all loops asked", func() bool {
		return !slices.ContainsFunc(waiting, func(d *drilled) bool { return d.status() != "awaiting_approval" })
	}); err != nil {
		return "", err
	}
	running, err := w.all(loops, 2, 1, "")
	if err != nil {
		return "", err
	}
	db.kill()
	<-time.After(down)
	if out, err := w.fleet("approve", "--repo", waiting[0].repo, "--loop", waiting[0].name); err == nil {
		return "", fmt.Errorf("a decision was taken without a database:\n%s", out)
	}
	for _, d := range slices.Concat(waiting, running) {
		if s := d.status(); s != "running" && s != "awaiting_approval" && s != "completed" {
			return "", fmt.Errorf("%s is %s while the database is away", d.name, s)
		}
	}
	began, mark := time.Now(), lines(running)
	if err := db.start(); err != nil {
		return "", err
	}
	if err := await(3*time.Minute, "work after the database is back", func() bool { return lines(running) > mark }); err != nil {
		return "", err
	}
	back := time.Since(began)
	if err := finished(running, 2, 5*time.Minute); err != nil {
		return "", err
	}
	for _, d := range waiting {
		if _, err := w.fleet("approve", "--repo", d.repo, "--loop", d.name); err != nil {
			return "", err
		}
	}
	if err := finished(waiting, 1, 3*time.Minute); err != nil {
		return "", err
	}
	return fmt.Sprintf("PostgreSQL away for %s, %d loops waiting and %d running: none ended, none lost, no attempt twice; work %.1f s after its start", down, loops, loops, back.Seconds()), nil
}

// database is a PostgreSQL of the test's own.
type database struct {
	bin, dir string
	port     int
	as       *syscall.Credential // it refuses to run as root
	cmd      *exec.Cmd
}

func (db *database) command(name string, args ...string) *exec.Cmd {
	c := exec.Command(filepath.Join(db.bin, name), args...)
	c.Dir, c.SysProcAttr = "/", &syscall.SysProcAttr{Credential: db.as, Setpgid: true}
	return c
}

// start starts the database and waits until it answers.
func (db *database) start() error {
	db.cmd = db.command("postgres", "-D", db.dir, "-p", strconv.Itoa(db.port), "-k", db.dir, "-c", "listen_addresses=127.0.0.1", "-c", "max_connections=200")
	log, err := os.OpenFile(filepath.Join(filepath.Dir(db.dir), "postgres.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	db.cmd.Stdout, db.cmd.Stderr = log, log
	if err := db.cmd.Start(); err != nil {
		return err
	}
	return await(time.Minute, "PostgreSQL", func() bool {
		return db.command("pg_isready", "-q", "-h", "127.0.0.1", "-p", strconv.Itoa(db.port)).Run() == nil
	})
}

// kill ends the database and all its processes, as a crash does.
func (db *database) kill() {
	if db.cmd != nil && db.cmd.Process != nil {
		_ = syscall.Kill(-db.cmd.Process.Pid, syscall.SIGKILL) // it may have ended
		_ = db.cmd.Wait()
	}
	db.cmd = nil
}

// free returns a port that nobody listens at. The schema of the server keeps its ports in 16 bits with a sign.
func free() (int, error) {
	for {
		port := 10000 + rand.IntN(22000)
		if l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port)); err == nil {
			return port, l.Close()
		} else if !errors.Is(err, syscall.EADDRINUSE) {
			return 0, err
		}
	}
}

// serve makes the database, its schema and a production server on it.
func (db *database) serve(w *world, port int) (err error) {
	top, err := os.MkdirTemp("", "superloop-drill-") // t.TempDir cannot be entered by another user
	if err != nil {
		return err
	}
	w.more = append(w.more, db.kill, func() { _ = os.RemoveAll(top) })
	db.dir = filepath.Join(top, "data")
	if err := errors.Join(os.Chmod(top, 0o755), os.Mkdir(db.dir, 0o700)); err != nil {
		return err
	}
	if os.Geteuid() == 0 {
		u, err := user.Lookup("postgres")
		if err != nil {
			return err
		}
		uid, _ := strconv.Atoi(u.Uid)
		gid, _ := strconv.Atoi(u.Gid)
		db.as = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		if err := os.Chown(db.dir, uid, gid); err != nil {
			return err
		}
	}
	var ports [9]int
	for i := range ports {
		if ports[i], err = free(); err != nil {
			return err
		}
	}
	db.port = ports[0]
	if out, err := db.command("initdb", "-D", db.dir, "-U", "temporal", "--auth=trust", "-E", "UTF8", "--no-sync").CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	if err := db.start(); err != nil {
		return err
	}
	for name, schema := range map[string]string{"temporal": "postgresql/v12/temporal", "temporal_visibility": "postgresql/v12/visibility"} {
		for _, args := range [][]string{{"create"}, {"setup-schema", "-v", "0.0"}, {"update-schema", "--schema-name", schema}} {
			to := []string{"temporal-sql-tool", "--plugin", "postgres12", "--ep", "127.0.0.1", "-p", strconv.Itoa(db.port), "-u", "temporal", "--db", name}
			if out, err := w.cmd(append(to, args...)...).CombinedOutput(); err != nil {
				return fmt.Errorf("the schema %s: %w\n%s", schema, err, out)
			}
		}
	}
	store := func(name string) string {
		return fmt.Sprintf(`{"sql": {"pluginName": "postgres12", "databaseName": %q, "connectAddr": "127.0.0.1:%d", "connectProtocol": "tcp", "user": "temporal", "maxConns": 20, "maxIdleConns": 20}}`, name, db.port)
	}
	service := func(grpc, membership int) string {
		return fmt.Sprintf(`{"rpc": {"grpcPort": %d, "membershipPort": %d, "bindOnLocalHost": true}}`, grpc, membership)
	}
	var tuned strings.Builder
	for _, name := range []string{"history.transferProcessorMaxPollRPS", "history.timerProcessorMaxPollRPS", "history.visibilityProcessorMaxPollRPS"} {
		fmt.Fprintf(&tuned, "%s:\n  - value: 2000\n", name)
	}
	fmt.Fprintf(&tuned, "matching.numTaskqueueReadPartitions:\n  - value: 1\nmatching.numTaskqueueWritePartitions:\n  - value: 1\n")
	config := fmt.Sprintf(`{"log": {"stdout": true, "level": "error"},
"persistence": {"defaultStore": "d", "visibilityStore": "v", "numHistoryShards": 4, "datastores": {"d": %s, "v": %s}},
"global": {"membership": {"maxJoinDuration": "30s", "broadcastAddress": "127.0.0.1"}},
"services": {"frontend": %s, "matching": %s, "history": %s, "worker": %s},
"clusterMetadata": {"failoverVersionIncrement": 10, "masterClusterName": "active", "currentClusterName": "active",
  "clusterInformation": {"active": {"enabled": true, "initialFailoverVersion": 1, "rpcName": "frontend", "rpcAddress": "127.0.0.1:%d"}}},
"dcRedirectionPolicy": {"policy": "noop"}, "publicClient": {"hostPort": "127.0.0.1:%d"},
"dynamicConfigClient": {"filepath": %q, "pollInterval": "60s"}}
`, store("temporal"), store("temporal_visibility"), service(port, ports[1]), service(ports[2], ports[3]), service(ports[4], ports[5]), service(ports[6], ports[7]), port, port, filepath.Join(top, "dynamic.yaml"))
	for name, text := range map[string]string{"server.yaml": config, "dynamic.yaml": tuned.String()} {
		if err := os.WriteFile(filepath.Join(top, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	server := w.cmd("temporal-server", "--config-file", filepath.Join(top, "server.yaml"), "--allow-no-auth", "start")
	log, err := os.OpenFile(filepath.Join(top, "server.log"), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	server.Stdout, server.Stderr = log, log
	if err := server.Start(); err != nil {
		return err
	}
	w.procs["dev"] = server
	said := ""
	if err := await(time.Minute, "the namespace", func() bool {
		out, err := w.cmd("temporal", "operator", "namespace", "create", "--namespace", "default", "--address", "127.0.0.1:"+strconv.Itoa(port)).CombinedOutput()
		said = string(out)
		return err == nil || strings.Contains(said, "already exists")
	}); err != nil {
		text, _ := os.ReadFile(filepath.Join(top, "server.log"))
		return fmt.Errorf("%w: %s\n%.2000s", err, said, text)
	}
	return await(time.Minute, "the server", func() bool {
		out, _ := w.fleet("doctor")
		return strings.Contains(out, "ok    the server answers")
	})
}
