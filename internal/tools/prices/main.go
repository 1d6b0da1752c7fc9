// Command prices makes prices.json, what roles/agent/price embeds, of the prices in the npm package
// @pydantic/genai-prices (MIT): it reads what source.mjs prints on standard input. The directive in price.go runs both.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
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
	var failed error
	line := func(v any) string {
		var out strings.Builder
		enc := json.NewEncoder(&out)
		enc.SetEscapeHTML(false)
		failed = errors.Join(failed, enc.Encode(v))
		return strings.TrimSpace(out.String())
	}
	// whole is an object with a last member, which is a list.
	whole := func(v any, name string, list []string) string {
		return fmt.Sprintf("%s,%s:[\n%s\n]}", strings.TrimSuffix(line(v), "}"), name, strings.Join(list, ",\n"))
	}
	var providers []string
	for _, p := range f.Providers {
		var models []string
		for _, m := range p.Models {
			models = append(models, line(m))
		}
		head := *p
		head.Models = nil
		providers = append(providers, whole(head, `"models"`, models))
	}
	f.Providers = nil
	return []byte(whole(f, "\n\"providers\"", providers) + "\n"), failed
}
