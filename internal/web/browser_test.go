package web

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/google/go-cmp/cmp"
)

// patience is how long a browser may take on the slowest machine. It is only waited for when something is wrong.
const patience = 3 * time.Minute

// browser starts a browser without a window, or skips the test where there is none.
func browser(t *testing.T) context.Context {
	t.Helper()
	var path string
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" || testing.Short() {
		t.Skip("no browser, or the short tests only")
	}
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath(path), chromedp.NoSandbox,
		chromedp.WSURLReadTimeout(patience),
		chromedp.Env("TMPDIR=/tmp")) // where it makes a socket, whose path may not be long
	alloc, cancel := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(cancel)
	ctx, cancel := chromedp.NewContext(alloc)
	t.Cleanup(cancel)
	do(t, ctx) // starts it
	ctx, cancel = context.WithTimeout(ctx, patience)
	t.Cleanup(cancel)
	return ctx
}

// complaints collects what the pages throw or write to the console.
func complaints(t *testing.T, ctx context.Context) func() []string {
	t.Helper()
	var mu sync.Mutex
	var list []string
	err := chromedp.Listen(ctx, func(event any) {
		mu.Lock()
		defer mu.Unlock()
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			list = append(list, e.ExceptionDetails.Text)
		case *runtime.EventConsoleAPICalled:
			list = append(list, "console: "+string(e.Type))
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(list)
	}
}

func do(t *testing.T, ctx context.Context, steps ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	if err := chromedp.Do(ctx, steps...); err != nil {
		t.Fatal(err)
	}
}

func ask[T any](t *testing.T, ctx context.Context, a chromedp.Action[T]) T {
	t.Helper()
	answer, err := chromedp.Run(ctx, a)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// focused puts the cursor into the field for the name of an item.
const focused = "(document.querySelector('#item')?.focus(), document.activeElement?.id === 'item')"

// await asks a page until what it is asked is true. A page may be replaced, in whole or by the stream, between any two questions, so that
// each of them is one expression, and nothing of a page is kept in hand.
func await(t *testing.T, ctx context.Context, expression string) {
	t.Helper()
	for {
		met, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("!!("+expression+")"))
		if err == nil && met {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("still not true: %s (%v)", expression, err)
		}
	}
}

// heading waits for the main heading to be the one that is wanted.
func heading(t *testing.T, ctx context.Context, want string) {
	t.Helper()
	await(t, ctx, fmt.Sprintf("document.querySelector('h1')?.textContent.trim() === %q", want))
}

// A person opens the printed address, goes to the job, and asks what happened to an item.
func TestAPersonClicksThroughThePages(t *testing.T) {
	ctx := browser(t)
	s := newSite(t)
	wrong := complaints(t, ctx)
	do(t, ctx, chromedp.Navigate(s.URL+"/?token="+token))
	heading(t, ctx, "Jobs")
	do(t, ctx, chromedp.Evaluate[chromedp.Void]("document.querySelector('tbody a').click()"))
	heading(t, ctx, evil+" completed with failures")
	await(t, ctx, focused)
	do(t, ctx, chromedp.KeyEvent("item_1\r"))
	heading(t, ctx, "item_1 succeeded")
	await(t, ctx, "document.querySelector('ol.entries')")
	if n := ask(t, ctx, chromedp.Evaluate[int]("document.querySelectorAll('script').length")); n != 1 || len(wrong()) > 0 {
		t.Errorf("%d scripts, complaints %q", n, wrong())
	}
}

// The middle of a page is replaced by what the server sends, and what a person types into it stays.
func TestWhatIsTypedStaysWhenThePageIsReplaced(t *testing.T) {
	ctx := browser(t)
	s := newSite(t)
	const again = `const again = new EventSource(main.dataset.live);
		again.addEventListener("page", (e) => { place(e.data); again.close(); });`
	do(t, ctx, chromedp.Navigate(s.URL+"/jobs/"+s.job.ID+"?token="+token))
	await(t, ctx, focused)
	do(t, ctx,
		chromedp.KeyEvent("half"), chromedp.Evaluate[chromedp.Void]("document.querySelector('h1').textContent = 'old'"),
		chromedp.Evaluate[chromedp.Void](again),
	)
	await(t, ctx, "document.querySelector('h1').textContent !== 'old'")
	if typed := ask(t, ctx, chromedp.Evaluate[string]("document.querySelector('#item').value")); typed != "half" {
		t.Errorf("what was typed is now %q", typed)
	}
	if at := ask(t, ctx, chromedp.Evaluate[string]("document.activeElement.id")); at != "item" {
		t.Errorf("the focus is at %q", at)
	}
}

// What a person has opened or closed stays so when the page is replaced, and the charts, which come more seldom, stay until they come.
func TestWhatIsOpenedStaysOpenAndChartsStay(t *testing.T) {
	ctx := browser(t)
	s := newSite(t)
	do(t, ctx, chromedp.Navigate(s.URL+"/jobs/"+s.job.ID+"?token="+token))
	await(t, ctx, "document.querySelector('#charts svg')")
	const replaced = `(() => {
		toggled.clear();
		const page = '<h1>new</h1><div id="charts"></div><details id="a"><summary id="of-a">a</summary></details><details id="b" open><summary>b</summary><pre class="printed">x</pre></details>';
		place(page);
		document.querySelector("#a summary").click();
		document.querySelector("#b summary").click();
		place(page);
		const kept = [document.querySelector("#a").open, document.querySelector("#b").open, !!document.querySelector("#charts svg")].join();
		place(page.replace('<div id="charts"></div>', '<div id="charts">later</div>'));
		return kept + "," + document.querySelector("#charts").textContent;
	})()`
	if got := ask(t, ctx, chromedp.Evaluate[string](replaced)); got != "true,false,true,later" {
		t.Errorf("got %q, want a open, b closed, and the charts", got)
	}
}

// A button does what it says in a browser, which sends more than the form: where it comes from.
func TestAPersonPressesButtons(t *testing.T) {
	ctx := browser(t)
	s := newSite(t)
	lock, err := s.job.Lock()
	if err != nil {
		t.Fatal(err)
	}
	do(t, ctx, chromedp.Navigate(s.URL+"/jobs/"+s.job.ID+"?token="+token))
	// press clicks a button, and waits until it has started so many actions in all.
	press := func(id string, all int) {
		t.Helper()
		follows := all > len(s.actions())
		await(t, ctx, "document.querySelector('#"+id+":enabled')")
		do(t, ctx, chromedp.Evaluate[chromedp.Void]("document.body.dataset.old = 'yes'; document.querySelector('#"+id+"').click()"))
		if follows {
			await(t, ctx, "document.readyState === 'complete' && !document.body.dataset.old") // the page that follows, and its script
		}
		if n := len(s.actions()); n != all {
			t.Fatalf("%s: %d actions were started, want %d; the page is %q", id, n, all, ask(t, ctx, chromedp.Evaluate[string]("document.body.innerText")))
		}
	}
	press("pause", 1)
	do(t, ctx, chromedp.Evaluate[chromedp.Void]("window.confirm = () => false"))
	press("cancel", 1)
	do(t, ctx, chromedp.Evaluate[chromedp.Void]("window.confirm = () => true"))
	press("cancel", 2)
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
	do(t, ctx, chromedp.Navigate(s.URL+"/jobs/"+s.job.ID))
	press("retry-failed", 3)
	want := []Action{{Kind: Pause}, {Kind: Cancel}, {Kind: Retry}}
	if diff := cmp.Diff(want, s.actions()); diff != "" {
		t.Error(diff)
	}
}

// What has not changed is not replaced, so that a button does not go from under the pointer; what is replaced keeps a number that was typed, a tick,
// and the focus, also of a link.
func TestOnlyWhatHasChangedIsReplaced(t *testing.T) {
	ctx := browser(t)
	s := newSite(t)
	do(t, ctx, chromedp.Navigate(s.URL+"/jobs/"+s.job.ID+"?token="+token))
	await(t, ctx, "document.querySelector('#charts svg')")
	const replaced = `(() => {
		const page = (n) => '<h1>' + n + '</h1><div class="actions"><button id="pause">Pause</button></div>' +
			'<div>' + n + '<input type="number" id="slots" value="2"><input type="checkbox" id="reduce"><a href="/a">a</a><a href="/b">b</a></div><p>last</p>';
		place(page(1));
		const button = document.querySelector("#pause");
		document.querySelector("#slots").value = "16";
		document.querySelector("#reduce").checked = true;
		document.querySelector("a[href='/b']").focus();
		place(page(2));
		const kept = [document.querySelector("#pause") === button, document.querySelector("#slots").value, document.querySelector("#reduce").checked,
			document.activeElement.getAttribute("href"), main.children.length].join();
		place('<p class="warn">new</p>' + page(2));
		const added = [document.querySelector("#pause") === button, main.children.length].join();
		place("<p>last</p>");
		return kept + ";" + added + ";" + main.innerHTML.trim();
	})()`
	if got := ask(t, ctx, chromedp.Evaluate[string](replaced)); got != "true,16,true,/b,4;true,5;<p>last</p>" {
		t.Errorf("got %q", got)
	}
}

// Those who cannot see a page, or use no mouse, can use it: everything to fill in and every drawing has a name, there is one main
// heading, and all that can be clicked can be reached by the keyboard.
func TestPagesHaveNames(t *testing.T) {
	ctx := browser(t)
	s := newSite(t)
	const check = `(() => {
		const bad = [];
		if (!document.documentElement.lang) bad.push("no language");
		if (document.querySelectorAll("h1").length !== 1) bad.push("not one h1");
		for (const e of document.querySelectorAll("input:not([type=hidden])")) if (!e.labels.length && !e.ariaLabel) bad.push("input " + e.id);
		for (const e of document.querySelectorAll("svg, progress")) if (!e.getAttribute("aria-label")) bad.push(e.tagName);
		for (const e of document.querySelectorAll("a, button")) if (!e.textContent.trim() || e.tabIndex < 0) bad.push("link or button " + e.outerHTML);
		for (const e of document.querySelectorAll("table")) if (!e.querySelector("thead th")) bad.push("table without headings");
		return bad;
	})()`
	do(t, ctx, chromedp.Navigate(s.URL+"/?token="+token))
	for _, path := range []string{"/", "/jobs/" + s.job.ID, "/jobs/" + s.job.ID + "/items", "/jobs/" + s.job.ID + "/items/item_1"} {
		do(t, ctx, chromedp.Navigate(s.URL+path))
		await(t, ctx, "document.querySelector('h1')")
		if bad := ask(t, ctx, chromedp.Evaluate[[]string](check)); len(bad) > 0 {
			t.Errorf("%s: %q", path, bad)
		}
	}
}

// A table is sorted by a press on a heading, with the mouse or the keyboard, says so, and stays sorted when the page is replaced.
func TestATableStaysSorted(t *testing.T) {
	ctx := browser(t)
	s := newSite(t)
	do(t, ctx, chromedp.Navigate(s.URL+"/jobs/"+s.job.ID+"?token="+token))
	await(t, ctx, "document.querySelector('#charts svg')")
	const sorted = `(() => {
		const row = (item, took, began) => '<tr><td>' + item + '</td><td class="n" data-sort="' + took + '">x</td><td class="n"><time datetime="' + began + '">age</time></td></tr>';
		const rows = [row("item_10", 900, "2026-11-20T16:00:02Z"), row("item_9", 1000, "2026-11-20T16:00:01Z"), row("item_2", 20, "2026-11-20T16:00:03Z")];
		const page = '<h1>new</h1><div class="wide" aria-label="Running"><table><thead><tr><th>item</th><th class="n">took</th><th class="n">for</th></tr></thead><tbody>';
		const items = () => [...document.querySelectorAll("tbody tr")].map((row) => row.cells[0].textContent.slice(5) + "").join();
		const head = (n) => document.querySelectorAll("th")[n];
		const press = (n) => { head(n).querySelector("button").focus(); head(n).querySelector("button").click(); return items() + " " + head(n).ariaSort; };
		place(page + rows.join("") + "</tbody></table></div>");
		const got = [items(), press(0), press(0), press(1), press(2)];
		const kept = head(0);
		place(page + rows.join("") + "</tbody></table></div>");
		got.push(head(0) === kept);
		place(page + rows.join("") + row("item_1", 1, "2026-11-20T16:00:00Z") + "</tbody></table></div>");
		got.push(items(), head(2).ariaSort, document.activeElement === head(2).querySelector("button"), head(0).ariaSort);
		return got.join("; ");
	})()`
	want := "10,9,2; 2,9,10 ascending; 10,9,2 descending; 9,10,2 descending; 9,10,2 descending; true; 1,9,10,2; descending; true; "
	if got := ask(t, ctx, chromedp.Evaluate[string](sorted)); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// What is selected stays so when the page is replaced, one tick selects the page, and all that match are asked about once.
func TestAPersonSelectsItems(t *testing.T) {
	ctx := browser(t)
	s := newSite(t)
	s.many(t, 1200)
	do(t, ctx, chromedp.Navigate(s.URL+"/jobs/"+s.job.ID+"/items?state=failed&token="+token))
	await(t, ctx, "document.querySelector('#page')")
	const selected = `(() => {
		const ticked = () => document.querySelectorAll("input[name=item]:checked").length;
		document.querySelector("#page").click();
		const got = [ticked()];
		document.querySelector("#page").click();
		document.querySelector("#item-13").click();
		place(main.innerHTML.replace("<h1>", "<h1>new").replace("last failure", "LAST"));
		got.push(ticked(), document.querySelector("#item-13").checked);
		window.asked = [];
		window.confirm = (question) => { window.asked.push(question); return false; };
		document.querySelector("#all").click();
		document.querySelector("#retry-some").click();
		got.push(window.asked.join());
		document.querySelector("#all").click();
		document.querySelector("#retry-some").click();
		return got.join("; ");
	})()`
	if got := ask(t, ctx, chromedp.Evaluate[string](selected)); got != "50; 1; true; Retry selected: all 120 items that match?" {
		t.Errorf("got %q", got)
	}
	await(t, ctx, "document.querySelector('h1') && !document.querySelector('#page')")
	want := []Action{{Kind: Retry, Items: []string{"item_13"}}}
	if diff := cmp.Diff(want, s.actions()); diff != "" {
		t.Error(diff)
	}
}

// On a narrow screen the state of a job, and why an item has failed, are seen without scrolling.
func TestNarrowPagesShowStatesAndFailures(t *testing.T) {
	ctx := browser(t)
	s := newSite(t)
	s.failed = 1
	s.many(t, 20)
	for _, c := range []struct {
		width      int64
		page, cell string
	}{
		{390, "/?", "td .state"},
		{500, "/jobs/" + s.job.ID + "/items?state=failed&", "td.text:not(:has(a))"},
	} {
		do(t, ctx, chromedp.EmulateViewport(c.width, 844), chromedp.Navigate(s.URL+c.page+"token="+token))
		await(t, ctx, "document.querySelector('"+c.cell+"')")
		right := ask(t, ctx, chromedp.Evaluate[float64]("document.querySelector('"+c.cell+"').getBoundingClientRect().right"))
		if right > float64(c.width) {
			t.Errorf("%s: %s ends at %v of %d", c.page, c.cell, right, c.width)
		}
	}
}
