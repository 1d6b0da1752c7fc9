package classify

import "testing"

// The words of runtimes and package managers that the published designs name.
// Conforms: 002-2-category, 002-6-words, 002-5-enoent, 003-c2.1-pattern, 003-c2.3-npm
func TestRuntimeWords(t *testing.T) {
	t.Parallel()
	c := embeddedClassifier(t)
	for _, tc := range []struct{ command, stderr, category string }{
		{"node report.js", "Error: ENOENT: no such file or directory, open '/srv/data/config.yaml'\n    at Object.openSync (node:fs:573:18) {\n  errno: -2,\n  code: 'ENOENT'\n}\n\nNode.js v20.20.2\n", "file_not_found"},
		{"python3 report.py", "Traceback (most recent call last):\n  File \"/repo/report.py\", line 1, in <module>\n    open('/srv/data/config.yaml')\nFileNotFoundError: [Errno 2] No such file or directory: '/srv/data/config.yaml'\n", "file_not_found"},
		{"agent run", "Tool not found: repo_browser.print_tree\n", "tool_not_found"},
		{"curl --foo http://127.0.0.1", "curl: option --foo: is unknown\ncurl: try 'curl --help' or 'curl --manual' for more information\n", "invalid_arguments"},
		{"jest --watchh", "● Unrecognized CLI Parameter:\n\n  Unrecognized option \"watchh\". Did you mean \"watch\"?\n", "invalid_arguments"},
		{"head -n x a", "head: invalid number of lines: ‘x’\n", "invalid_arguments"},
		{"npm install", "npm ERR! Unexpected end of the data\n", "build_failure"},
		{"npm test", "npm ERR! Test failed.  See above for more details.\n", CategoryUnknown},
		{"curl -f http://127.0.0.1:1/v1/messages", "curl: (22) The requested URL returned error: 529\n", "rate_limited"},
		{"python3 ask.py", "urllib.error.HTTPError: HTTP Error 529: Overloaded\n", "rate_limited"},
		{"node ask.js", "Error: 529 {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n", "rate_limited"},
	} {
		if f := verdictOf(t, c, tc.command, 1, "", tc.stderr); f.Category != tc.category || f.Code {
			t.Errorf("%s: %s by %s, code %v, want %s: %s", tc.command, f.Category, f.Handler, f.Code, tc.category, f.Why)
		}
	}
}
