package main

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/superloop/superloop/cmd/superloop/internal/metrics"
	"github.com/superloop/superloop/loop/config"
)

// metricsAddress is where metrics are to be served, "" for nowhere.
func metricsAddress(c *cli.Context) (string, error) {
	if !c.IsSet("metrics") {
		return "", nil
	}
	addr, err := metrics.Address(c.String("metrics"))
	if err != nil {
		return "", failf(exitUsage, "superloop run --metrics 127.0.0.1:0", "%w", err)
	}
	return addr, nil
}

// serveMetrics tells the metrics of these loops until stop is called. That a port is
// in use is known before a loop begins; what happens later to the server ends none.
func (a *app) serveMetrics(addr, repo string, todo []config.Loop) (stop func(), err error) {
	if addr == "" {
		return func() {}, nil
	}
	sources := make([]metrics.Source, len(todo))
	for i, l := range todo {
		paths, err := a.paths(repo, l.ID)
		if err != nil {
			return nil, err
		}
		sources[i] = metrics.Source{Loop: l.ID, Journal: paths.Events()}
	}
	s, err := metrics.Serve(addr, metrics.NewCollector(sources))
	if err != nil {
		return nil, failf(exitConfig, "superloop run --metrics 127.0.0.1:0", "%w", err)
	}
	fmt.Fprintf(a.stderr, "metrics: %s\n", s.URL)
	return func() { _ = s.Close() }, nil // it is gone with the process at the latest
}
