package tracker

import (
	"fmt"
	"sync"
	"testing"

	"github.com/superloop/superloop/server/forge"
	"github.com/superloop/superloop/server/forge/forgefake"
)

// A hundred workers tell of three hundred items at the same moment. Each item ends with one label and one comment for each
// report, however often it was told.
func TestManyWorkers(t *testing.T) {
	t.Parallel()
	s := forgefake.New(t)
	for i := range 300 {
		s.AddIssue("eve", fmt.Sprint("Build ", i), "text", Mark)
	}
	for _, tr := range []Tracker{GitHub{s.Client(forge.GH), Mark}, GitLab{s.Client(forge.Glab), Mark}} {
		list := mustList(t, tr)
		if len(list) != 300 {
			t.Fatalf("%d items", len(list))
		}
		work := make(chan Item)
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				for it := range work {
					for _, r := range []Report{{State: Taken}, {State: Delivered, Text: fmt.Sprintf("%T: done.", tr)}} {
						if err := tr.Tell(t.Context(), it.ID, r); err != nil {
							t.Error(err)
						}
					}
				}
			})
		}
		for _, it := range list {
			work <- it
		}
		close(work)
		all.Wait()
	}
	for n := 1; n <= 300; n++ {
		if is := s.Issue(n); stateLabels(s, n) != "superloop-delivered" || len(is.Comments) != 2 {
			t.Fatalf("%+v", is)
		}
	}
}
