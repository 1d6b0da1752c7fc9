package classify

import "testing"

// Of two alternatives that both fail, the command ended with what the last one said.
func TestLastAlternative(t *testing.T) {
	t.Parallel()
	c := embeddedClassifier(t)
	const (
		lock = "npm error code EUSAGE\nnpm error\nnpm error The `npm ci` command can only install with an existing package-lock.json or\nnpm error npm-shrinkwrap.json with lockfileVersion >= 1.\n"
		log  = "npm error A complete log of this run can be found in: /home/dev/.npm/_logs/a-debug-0.log\n"
		perm = "npm error code EACCES\nnpm error syscall mkdir\nnpm error path /repo/node_modules/left-pad\nnpm error errno -13\nnpm error Error: EACCES: permission denied, mkdir '/repo/node_modules/left-pad'\n"
		yarn = "error An unexpected error occurred: \"EACCES: permission denied, mkdir '/repo/node_modules/left-pad'\".\n"
	)
	for _, tc := range []struct{ name, command, stderr, category string }{
		{"both are npm", "npm ci || npm install", lock + log + perm + log, "permission_denied"},
		{"one alone", "npm ci", lock + log, "dependency"},
		{"the last is another program", "npm ci || yarn install", lock + log + yarn, "permission_denied"},
		{"the last says nothing known", "npm ci || false", lock + log + "nothing\n", "dependency"},
	} {
		if f := verdictOf(t, c, tc.command, 1, "", tc.stderr); f.Category != tc.category {
			t.Errorf("%s: %s by %q, want %s: %s", tc.name, f.Category, f.Handler, tc.category, f.Why)
		}
	}
}
