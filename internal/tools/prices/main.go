// Command prices makes prices.json, what roles/agent/price embeds, of the prices in the
// npm package @pydantic/genai-prices (MIT): it reads what source.mjs prints on
// standard input. The directive in price.go runs both.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/superloop/superloop/internal/durable"
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
	data, err := f.encode()
	if err != nil {
		return err
	}
	if err := durable.OS().WriteFile("prices", out, data, 0o644); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "%s: %d bytes, %d models\n", out, len(data), f.count())
	return nil
}
