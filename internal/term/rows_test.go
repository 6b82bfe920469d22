package term

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestATableFitsTheTerminal(t *testing.T) {
	g := Look{Colours: true}
	for width, want := range map[int]string{
		100: "ITEM     TRIES  ERROR                               DATA\n" +
			"item_0   1      " + g.Paint(Red, "no") + "                                  世界 世界\n" +
			"item_10  12     connection refused by the upstream  {\"path\":\"a\"}\n",
		50: "ITEM     TRIES  ERROR                 DATA\n" +
			"item_0   1      " + g.Paint(Red, "no") + "                    世界 世界\n" +
			"item_10  12     connection refused …  {\"path\":\"a\"}\n",
		40: "ITEM     TRIES  ERROR\n" +
			"item_0   1      " + g.Paint(Red, "no") + "\n" +
			"item_10  12     connection refused by t…\n",
		24: "ITEM     ERROR\n" +
			"item_0   " + g.Paint(Red, "no") + "\n" +
			"item_10  connection ref…\n",
		4: "ITEM     …\nitem_0   …\nitem_10  …\n",
	} {
		var b strings.Builder
		rows := Rows[[4]string]{Look: Look{Colours: true, Width: width}, Columns: []Column[[4]string]{
			{Head: "ITEM", Cell: func(r [4]string) string { return r[0] }},
			{Head: "TRIES", Cell: func(r [4]string) string { return r[1] }, Drop: 2},
			{Head: "ERROR", Cell: func(r [4]string) string { return r[2] }, Paint: func(r [4]string) Colour {
				if r[2] == "no" {
					return Red
				}
				return ""
			}},
			{Head: "DATA", Cell: func(r [4]string) string { return r[3] }, Drop: 1},
		}}
		all := Each([][4]string{
			{"item_0", "1", "no", "世界 世界"},
			{"item_10", "12", "connection refused by the upstream", `{"path":"a"}`},
		})
		if _, err := rows.Print(&b, all); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, b.String()); diff != "" {
			t.Errorf("%d columns (-want +got):\n%s", width, diff)
		}
		for line := range strings.Lines(b.String()) {
			if wide := Width(strings.TrimSpace(line)); wide > max(width, 10) {
				t.Errorf("%d columns of %d: %q", wide, width, line)
			}
		}
	}
}
