// Command site makes the documentation of superloop as a site of static pages: README.md, CONTRIBUTING.md, CHANGELOG.md and docs/. It is a module of
// its own, so that superloop does not depend on a Markdown library.
//
//	go run -C internal/tools/site . DIR
//
// The navigation is the table of pages in README.md. A link or anchor that leads nowhere is an error, and so is a page that
// README.md does not list. What pages link to beside each other (tests, schemas, examples) is copied into the site as text. The pages
// load nothing from elsewhere; the script does nothing but search.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/superloop/superloop/internal/durable"
)

func main() {
	err := errors.New("where to? type: go run ./internal/tools/release --site DIR")
	if len(os.Args) == 2 {
		err = build(durable.OS(), "../../..", os.Args[1])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
	fmt.Println("the first page is index.html in", os.Args[1])
}
