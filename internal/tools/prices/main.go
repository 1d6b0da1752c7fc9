// Command prices makes prices.json, what roles/agent/price embeds, of the prices in the
// npm package @pydantic/genai-prices (MIT): it reads what source.mjs prints on
// standard input. The directive in price.go runs both.
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/roles/agent/price"
)

func main() {
	date := flag.String("date", "", "the day of the source's release, as 2006-01-02")
	out := flag.String("out", "prices.json", "the file to write")
	flag.Parse()
	if err := run(os.Stdin, *date, *out); err != nil {
		fmt.Fprintln(os.Stderr, "prices:", err)
		os.Exit(1)
	}
}

func run(in io.Reader, date, out string) error {
	if _, err := time.Parse(time.DateOnly, date); err != nil {
		return fmt.Errorf("-date %q: %w; `npm view @pydantic/genai-prices time` tells it", date, err)
	}
	var src source
	if err := json.NewDecoder(in).Decode(&src); err != nil {
		return fmt.Errorf("reading the source: %w", err)
	}
	f, err := convert(src)
	if err != nil {
		return err
	}
	f.Date = date
	data, err := encode(f)
	if err != nil {
		return err
	}
	if err := durable.OS().WriteFile("prices", out, data, 0o644); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "%s: %d bytes\n", out, len(data))
	return nil
}

// encode writes one model a line, so that a new version can be read as a diff.
func encode(f price.File) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	var failed error
	// write writes v as one line. Of an object that is left open, what follows is
	// the elements of its last member.
	write := func(v any, open string) {
		if err := enc.Encode(v); err != nil {
			failed = err
		}
		if open != "" {
			out.Truncate(out.Len() - len("}\n"))
			out.WriteString(open)
		}
	}
	separate := func(more bool) {
		if more {
			out.Truncate(out.Len() - 1)
			out.WriteString(",\n")
		}
	}
	providers := f.Providers
	f.Providers = nil
	write(f, ",\n\"providers\":[\n")
	for i, p := range providers {
		separate(i > 0)
		head := *p
		head.Models = nil
		write(head, ",\"models\":[\n")
		for i, m := range p.Models {
			separate(i > 0)
			write(m, "")
		}
		out.WriteString("]}\n")
	}
	out.WriteString("]}\n")
	return out.Bytes(), failed
}
