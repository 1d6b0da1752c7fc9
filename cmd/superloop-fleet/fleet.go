package main

import (
	"cmp"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
	"go.temporal.io/sdk/converter"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/temporal"
	"github.com/superloop/superloop/server/gateway/link"
)

// fleet is what a machine knows of its fleet: fleet.json in its private state.
type fleet struct {
	Fleet    string        `json:"fleet"`
	Machine  string        `json:"machine,omitempty"` // this machine's id, that of Key; it stays the same for ever
	Key      []byte        `json:"key,omitempty"`     // this machine's private key, by which the gateway knows it
	Payloads temporal.Keys `json:"payloads"`
	// Gateways are the public keys that decisions are signed with. Gateway is this machine's private one, nil if it only
	// works: it then carries out what others have decided.
	Gateways [][]byte `json:"gateways"`
	Gateway  []byte   `json:"gateway,omitempty"`
}

const maxFleet = 1 << 20 // bounds fleet.json, in bytes

func (a *app) file() (string, error) {
	dir, err := a.dir()
	return filepath.Join(dir, "fleet.json"), err
}

// load reads fleet.json.
func (a *app) load() (f fleet, err error) {
	path, err := a.file()
	if err != nil {
		return f, err
	}
	data, err := door.ReadOwn(path, maxFleet)
	if errors.Is(err, fs.ErrNotExist) {
		return f, errors.New("this machine is in no fleet (type: superloop-fleet init)")
	}
	if err == nil {
		err = text.Decode(data, &f)
	}
	if err != nil {
		return f, fmt.Errorf("reading %s: %w", path, err)
	}
	return f, nil
}

// init makes a fleet, or joins one.
func (a *app) init(c *cli.Context) error {
	path, err := a.file()
	if err != nil {
		return err
	}
	if _, err := os.Lstat(path); err == nil {
		return fmt.Errorf("this machine is in a fleet already; what it knows of it is in %s", path)
	}
	f := fleet{Fleet: c.String("fleet")}
	if from := c.String("join"); from != "" {
		if f, err = joined(from); err != nil {
			return fmt.Errorf("reading the invitation: %w", err)
		}
	} else {
		public, private, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			return err
		}
		f.Gateway, f.Gateways = private, [][]byte{public}
		f.Payloads = temporal.Keys{Write: "1", All: map[string][]byte{"1": temporal.NewKey()}}
	}
	public, own, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	f.Machine, f.Key = link.MachineID(public), own
	data, err := loop.EncodeIndent(f, "  ")
	if err != nil {
		return err
	}
	if err := a.disk.MkdirAll("fleet", filepath.Dir(path), 0o700); err != nil {
		return err
	}
	if err := a.disk.WriteFile("fleet", path, append(data, '\n'), 0o600); err != nil {
		return err
	}
	fmt.Fprintf(a.stdout, "this is machine %s of the fleet %s\nnext: superloop-fleet worker   (and, once in the fleet, superloop-fleet control)\n", f.Machine, f.Fleet)
	return nil
}

// joined reads an invitation.
func joined(from string) (f fleet, err error) {
	var data []byte
	if from == "-" {
		data, err = io.ReadAll(io.LimitReader(os.Stdin, maxFleet))
	} else {
		data, err = door.ReadOwn(from, maxFleet)
	}
	if err == nil {
		err = text.Decode(data, &f)
	}
	if err == nil && (f.Fleet == "" || len(f.Gateways) == 0) {
		err = errors.New("it names no fleet, or no gateway")
	}
	f.Gateway, f.Machine, f.Key = nil, "", nil
	return f, err
}

// invite prints what another machine has to know.
func (a *app) invite(*cli.Context) error {
	f, err := a.load()
	if err != nil {
		return err
	}
	f.Gateway, f.Machine, f.Key = nil, "", nil
	return json.NewEncoder(a.stdout).Encode(f)
}

// dial connects with the server.
func (a *app) dial(f fleet) (*server, error) {
	o, err := envconfig.LoadDefaultClientOptions()
	if err != nil {
		return nil, fmt.Errorf("reading the address of the server: %w", err)
	}
	if o.DataConverter, err = temporal.Converter(f.Payloads); err != nil {
		return nil, err
	}
	// A converter of failures that writes their texts into payloads keeps paths and commands from the server, too.
	o.FailureConverter, o.Logger = temporal.FailureConverter(o.DataConverter), quiet{}
	to, err := client.Dial(o)
	if err != nil {
		return nil, fmt.Errorf("no Temporal server answers at %s (TEMPORAL_ADDRESS names another; superloop-fleet dev runs one): %w", cmp.Or(o.HostPort, client.DefaultHostPort), err)
	}
	return &server{to, cmp.Or(o.Namespace, client.DefaultNamespace), o.DataConverter, o.FailureConverter}, nil
}

// server is the connection with the server of a fleet.
type server struct {
	client.Client
	namespace string
	payloads  converter.DataConverter
	failures  converter.FailureConverter
}

// quiet leaves out what the SDK logs: what matters is in errors.
type quiet struct{}

func (quiet) Debug(string, ...any) {}
func (quiet) Info(string, ...any)  {}
func (quiet) Warn(string, ...any)  {}
func (quiet) Error(string, ...any) {}

// open loads the fleet and connects with the server.
func (a *app) open() (fleet, *server, error) {
	f, err := a.load()
	if err != nil {
		return f, nil, err
	}
	c, err := a.dial(f)
	return f, c, err
}
