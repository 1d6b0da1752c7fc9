// Package metrics tells what journals say as Prometheus metrics, over HTTP on this machine.
//
// The journals are all that it knows: each scrape reads on where the last one ended, so a restart changes no number,
// and what the supervisor holds in memory plays no part. It only reads. Whatever stands in a journal, there are no more
// time series than the bounds in bounds.go allow, and nothing that happens here ends the loop.
package metrics
