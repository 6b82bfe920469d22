package events

import (
	"encoding/json"
	"regexp"
	"testing"
)

func TestSearchFindsLinesAsTheyAreWrittenAndTextsAsTheyWere(t *testing.T) {
	line := []byte(numbered(t, 1, AgentCompleted{
		AttemptID: AttemptID{ItemID: "a"},
		ItemOutput: ItemOutput{
			Output:   "cannot do \"three\"\nat C:\\x",
			Captured: map[string]json.RawMessage{"list": json.RawMessage(`["deep \"er\""]`)},
		},
	}))
	for expr, want := range map[string]bool{
		`cannot`: true, `do "three"`: true, `do \\"three`: true, `C:\\x`: true, `^at C`: false, `(?m)^at C`: true, `^cannot`: true,
		`deep "er"`: true, `"item_id":"a"`: true, `absent`: false, `(?i)AGENTCOMPLETED`: true,
	} {
		if got := Containing(regexp.MustCompile(expr))(line); got != want {
			t.Errorf("%s: got %v, want %v", expr, got, want)
		}
	}
	for text, want := range map[string]bool{
		`CANNOT DO "three"`: true, `c:\X`: true, `deep "ER"`: true, `"item_id":"A"`: true, `absent`: false, "three\"\nat": true,
	} {
		if got := ContainingText(text)(line); got != want {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
	if Containing(regexp.MustCompile("x"))([]byte("{")) {
		t.Error("found in what is no JSON")
	}
}

func TestATextIsFoundAsItsExpressionWouldBe(t *testing.T) {
	for _, output := range []string{"", "item_1", "ITEM_10", "größer", "GRÖSSER", "\u212a", "a\nb", "^item$"} {
		line := []byte(numbered(t, 1, AgentCompleted{
			AttemptID:  AttemptID{ItemID: "Item_1"},
			ItemOutput: ItemOutput{Output: output},
		}))
		for _, text := range []string{"item_1", "iteM_10", "größer", "k", "a\nb", "B", "^item", "agentcompleted", ".", "x"} {
			want := Containing(regexp.MustCompile("(?i)" + regexp.QuoteMeta(text)))(line)
			if got := ContainingText(text)(line); got != want {
				t.Errorf("%q in %s: got %v, want %v", text, line, got, want)
			}
		}
	}
}

func TestTheLimitIsOfWhatMatches(t *testing.T) {
	dir := logDir(t, numbered(t, 1, PhaseStarted{Phase: "setup"}, PhaseStarted{Phase: "map"}, PhaseStarted{Phase: "setup"}, JobPaused{}))
	got, err := collect(t, dir, Query{Limit: 1, Matches: Containing(regexp.MustCompile("setup"))})
	if err != nil || len(got) != 1 || got[0][:8] != `{"seq":3` {
		t.Errorf("got %v %v, want record 3", got, err)
	}
}
