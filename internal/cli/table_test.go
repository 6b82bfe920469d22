package cli

import (
	"strings"
	"testing"

	"github.com/clipperhouse/displaywidth"
	"github.com/google/go-cmp/cmp"
)

func TestATableFitsTheTerminal(t *testing.T) {
	g := progressLines{colours: true}
	for width, want := range map[int]string{
		100: "ITEM     TRIES  ERROR                               DATA\n" +
			"item_0   1      " + g.paint(red, "no") + "                                  世界 世界\n" +
			"item_10  12     connection refused by the upstream  {\"path\":\"a\"}\n",
		50: "ITEM     TRIES  ERROR                 DATA\n" +
			"item_0   1      " + g.paint(red, "no") + "                    世界 世界\n" +
			"item_10  12     connection refused …  {\"path\":\"a\"}\n",
		40: "ITEM     TRIES  ERROR\n" +
			"item_0   1      " + g.paint(red, "no") + "\n" +
			"item_10  12     connection refused by t…\n",
		24: "ITEM     ERROR\n" +
			"item_0   " + g.paint(red, "no") + "\n" +
			"item_10  connection ref…\n",
		4: "ITEM     …\nitem_0   …\nitem_10  …\n",
	} {
		var b strings.Builder
		tab := newTable(&b, look{width: width}, []string{"DATA", "TRIES"}, "ITEM", "TRIES", "ERROR", "DATA")
		tab.row("item_0", "1", g.paint(red, "no"), "世界 世界")
		tab.row("item_10", "12", "connection refused by the upstream", `{"path":"a"}`)
		if err := tab.flush(); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, b.String()); diff != "" {
			t.Errorf("%d columns (-want +got):\n%s", width, diff)
		}
		for line := range strings.Lines(b.String()) {
			if wide := displaywidth.String(plain(strings.TrimSpace(line))); wide > max(width, 10) {
				t.Errorf("%d columns of %d: %q", wide, width, line)
			}
		}
	}
}
