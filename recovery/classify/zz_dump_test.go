package classify
import ("testing";"os";"strings";"fmt")
func TestZZDump(t *testing.T){
 c := embeddedClassifier(t)
 p := c.prog
 os.WriteFile("/tmp/b6/M/exprs.txt", []byte(strings.Join(p.exprs,"\x00")),0o644)
 users := map[int][]string{}
 for _, h := range p.handlers { for _, l := range [][]int{h.any,h.all,h.not} { for _, n := range l { users[n]=append(users[n], h.h.ID) } } }
 var b strings.Builder
 for i := range p.exprs { fmt.Fprintf(&b,"%d\t%s\n", i, strings.Join(users[i],",")) }
 os.WriteFile("/tmp/b6/M/users.txt", []byte(b.String()),0o644)
 for _, pr := range p.problems { t.Logf("%d %v %s: %s [%s]", pr.Pattern, pr.Reject, p.exprs[pr.Pattern], pr.Text, strings.Join(users[pr.Pattern],",")) }
 t.Log(len(p.exprs), len(p.handlers), p.set.Bytes())
}
