module github.com/superloop/superloop/internal/tools/site

go 1.26.0

require (
	github.com/superloop/superloop v0.0.0
	github.com/yuin/goldmark v1.8.7
)

require golang.org/x/sys v0.49.0 // indirect

replace github.com/superloop/superloop => ../../..
