package gitcmd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/text"
)

const maxReflogEnd = 64 << 10 // bytes of the end of a reflog that MendHead reads

// MendHead writes the file HEAD of the repository around dir anew, if a power cut has left it empty, or if the repository
// at dir has none: no git works in such a repository, so Open fails. HEAD leads to the branch whose reflog ends as the
// reflog of HEAD does, or to the only branch. It returns what it did, or "" if HEAD is not empty or there is no
// repository. If it cannot know the branch, the error names the command.
func MendHead(dir string) (did string, err error) {
	found, err := place{}, error(nil)
	if dir, err = real(dir); err == nil {
		git := filepath.Join(dir, ".git")
		if info, _ := os.Lstat(git); info != nil && info.IsDir() && slices.Equal(lacking(git), []string{"HEAD"}) {
			found = place{dir, git, git}
		} else {
			found, err = find(dir)
		}
	}
	if err != nil {
		return "", nil // Open says why
	}
	head := filepath.Join(found.dir, "HEAD")
	data, err := door.Read(head, 1<<10)
	if err != nil && !errors.Is(err, fs.ErrNotExist) || strings.Trim(string(data), "\x00\n ") != "" {
		return "", nil
	}
	refs := branches(found.common, "refs")
	logs := branches(found.common, "logs/refs")
	last := lastID(filepath.Join(found.dir, "logs", "HEAD"))
	var match []string
	for _, name := range logs {
		if id := lastID(filepath.Join(found.common, "logs/refs/heads", name)); id != "" && id == last {
			match = append(match, name)
		}
	}
	if len(match) != 1 {
		match = refs
	}
	if len(match) != 1 {
		return "", fmt.Errorf("the file %s is empty, as a power cut leaves it, or gone, and the branch that it led to is not known (branches: %s); "+
			"write it: echo 'ref: refs/heads/BRANCH' >%s", head, strings.Join(refs, " "), text.Paste(head))
	}
	if err := disk.WriteFile("git-heal", head, []byte("ref: refs/heads/"+match[0]+"\n"), 0o644); err != nil {
		return "", err
	}
	return fmt.Sprintf("the file HEAD was empty or gone; it leads to the branch %s again", match[0]), nil
}

// branches lists the files below heads of a directory of the repository.
func branches(common, dir string) (names []string) {
	top := filepath.Join(common, dir, "heads")
	_ = filepath.WalkDir(top, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && !strings.HasSuffix(p, ".lock") {
			name, _ := filepath.Rel(top, p)
			names = append(names, filepath.ToSlash(name))
		}
		return nil
	})
	return names
}

// lastID returns the commit to which the last whole line of a reflog leads, or "".
func lastID(file string) (id string) {
	end, _, err := door.Ends(file, 0, maxReflogEnd)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(end) {
		words := strings.Fields(line)
		if len(words) > 2 && len(words[1]) >= 40 && strings.HasSuffix(line, "\n") {
			id = words[1]
		}
	}
	return id
}
