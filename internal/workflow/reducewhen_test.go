package workflow

import "testing"

func TestReduceWaitsForAllOfItsConditions(t *testing.T) {
	w := parse(t, "reduce_when: {success_rate: '>= 95%', failed: '< 3'}\nmap: {input: a, agent_template: [{shell: a}]}\nreduce: [{shell: b}]").ReduceWhen
	for _, c := range []struct {
		successful, total int
		want              string
	}{
		{20, 20, ""},
		{19, 20, ""},
		{18, 20, "18 of 20 items succeeded, reduce_when requires success_rate >= 95%"},
		{96, 100, "96 of 100 items succeeded, reduce_when requires failed < 3"},
		{98, 100, ""},
		{0, 0, ""},
	} {
		if got := w.Unmet(c.successful, c.total); got != c.want {
			t.Errorf("%d of %d: got %q, want %q", c.successful, c.total, got, c.want)
		}
	}
	var none *ReduceWhen
	if got := none.Unmet(0, 10); got != "" {
		t.Errorf("without conditions: got %q", got)
	}
}

func TestABoundIsExactAtItsNumber(t *testing.T) {
	for n := 1; n <= 100; n++ { // each part of a hundred, as people write it
		text := string([]byte{'0', '.', byte('0' + n/10%10), byte('0' + n%10)})
		if n == 100 {
			text = "1"
		}
		w := parse(t, "reduce_when: {success_rate: '>= "+text+"'}\nmap: {input: a, agent_template: [{shell: a}]}\nreduce: [{shell: b}]").ReduceWhen
		if w.Unmet(n, 100) != "" || w.Unmet(n-1, 100) == "" {
			t.Errorf(">= %s: not exact at %d of 100", text, n)
		}
	}
}
