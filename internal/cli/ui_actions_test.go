package cli

import (
	"bufio"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"prodigy/internal/events"
	"prodigy/internal/jobs"
)

const uiRetried = `
name: letters
env:
  TOKEN: {secret: true, value: s3cr3t-4711}
map:
  input: [{id: "<script>alert(1)</script>"}, {id: "a/b%2F", with: s3cr3t-4711}]
  key: item.id
  agent_template:
    - shell: "test -e mended"
`

// A person sees a dead letter in the browser, mends the cause, presses the button, and the item succeeds, whatever it is called.
func TestADeadLetterIsRunAgainFromTheBrowser(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the workflow needs a POSIX sh")
	}
	dir := t.TempDir()
	t.Setenv("PRODIGY_HOME", filepath.Join(dir, "home"))
	t.Chdir(dir)
	writeText(t, "workflow.yml", uiRetried)
	if out, err := exec.Command("prodigy", "run", "workflow.yml").CombinedOutput(); err == nil {
		t.Fatalf("the items succeeded:\n%s", out)
	}
	person := newPerson(t)
	_, list := person.get("/")
	job := regexp.MustCompile(`/jobs/[^"]+`).FindString(list)
	if strings.Contains(list, "<script>") || job == "" {
		t.Fatalf("the list of jobs is %s", list)
	}
	writeText(t, "mended", "")
	for i, id := range []string{"<script>alert(1)</script>", "a/b%2F"} {
		_, letter := person.get(job + "/items?" + url.Values{"item": {id}}.Encode())
		if strings.Contains(letter, "<script>alert") || !strings.Contains(letter, ">Retry<") {
			t.Fatalf("the letter of %s is %s", id, letter)
		}
		form := url.Values{"item": {id}, "token": {hiddenToken(letter)}}
		if code, body := person.post(job+"/retry", form); code != http.StatusOK {
			t.Fatalf("the retry of %s: %d %s", id, code, body)
		}
		person.await(job+"/items?"+url.Values{"item": {id}}.Encode(), "succeeded")
		person.await(job, []string{">completed with failures<", ">completed<"}[i]) // while the process of this retry works on the job, another one is refused
	}
	for _, path := range []string{"/items?item=a%2Fb%252F", "/report"} {
		if _, page := person.get(job + path); strings.Contains(page, "s3cr3t") || !strings.Contains(page, "***") {
			t.Errorf("%s shows a secret: %s", path, page)
		}
	}
	if _, letters := person.get(job + "/items?state=failed"); !strings.Contains(letters, "No matching items.") {
		t.Errorf("the dead letters are %s", letters)
	}
}

const uiStopped = `
name: long
map:
  input: [a]
  agent_template:
    - shell: "echo waiting >&2; test -e go || sleep 60"
reduce:
  - shell: "pwd > where"
`

// A person stops a job in the browser, mends something, and resumes it. The commands run in the directory of the job, wherever the server
// was started, and what they print is kept.
func TestAJobIsStoppedAndResumedFromTheBrowser(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the workflow needs a POSIX sh")
	}
	dir := t.TempDir()
	t.Setenv("PRODIGY_HOME", filepath.Join(dir, "home"))
	t.Chdir(t.TempDir())
	writeText(t, filepath.Join(dir, "workflow.yml"), uiStopped)
	run := exec.Command("prodigy", "run", "--grace", "10ms", "workflow.yml")
	run.Dir = dir
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	person := newPerson(t, "--all")
	var job string
	for job == "" {
		_, list := person.get("/")
		job = regexp.MustCompile(`/jobs/[^"]+`).FindString(list)
	}
	for _, path := range []string{"/", job} {
		person.await(path, filepath.Base(dir)+"</code>") // the log may be a moment behind the directory of the job
	}
	person.await(job+"/items?item=item_0", "waiting") // what the step has printed by now
	_, page := person.get(job)
	form := url.Values{"token": {hiddenToken(page)}}
	if code, body := person.post(job+"/stop", form); code != http.StatusOK {
		t.Fatalf("the stop: %d %s", code, body)
	}
	if err := run.Wait(); err == nil {
		t.Error("the job was not stopped")
	}
	person.await(job, ">stopped<")
	person.await(job, "has stopped")
	writeText(t, filepath.Join(dir, "go"), "")
	if code, body := person.post(job+"/resume", form); code != http.StatusOK {
		t.Fatalf("the resume: %d %s", code, body)
	}
	person.await(job, ">completed<")
	person.await(job, "1 of 1 items succeeded")
	where, err := os.ReadFile(filepath.Join(dir, "where"))
	if err != nil || filepath.Base(strings.TrimSpace(string(where))) != filepath.Base(dir) {
		t.Errorf("reduce ran in %s (%v), want %s", where, err, dir)
	}
	if code, body := person.post(job+"/stop", form); code != http.StatusConflict || !strings.Contains(body, "is not running") {
		t.Errorf("a stop of what does not run: %d %s", code, body)
	}

	shown := newPerson(t, "--all", "--read-only")
	_, page = shown.get(job)
	if code, _ := shown.post(job+"/resume", form); code != http.StatusForbidden || hiddenToken(page) != "" {
		t.Errorf("a resume from a server that only shows: %d, token %q", code, hiddenToken(page))
	}
}

// jobOnAFleet makes a job of this home that was begun by a command line, and ran on the fleet of a broker last.
func jobOnAFleet(t *testing.T, dir, broker string, args ...string) jobs.Job {
	t.Helper()
	home, err := jobs.FromEnv()
	if err != nil {
		t.Fatal(err)
	}
	job, err := home.Create("repo", "mapreduce", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	const source = "mode: mapreduce\nmap:\n  input: [1, 2]\n  agent_template: [{shell: \"echo here >>ran\"}]\n"
	writeText(t, job.WorkflowFile(), source)
	meta := jobs.Meta{JobID: job.ID, Workflow: "w", Mode: "mapreduce", Dir: dir, Started: time.Now(), MaxParallel: 1, Args: args, Digests: []string{jobs.Digest([]byte(source))}}
	if err := job.WriteMeta(meta); err != nil {
		t.Fatal(err)
	}
	log, err := events.Create(job.EventsDir(), job.ID, time.Now(), events.Options{})
	if err != nil {
		t.Fatal(err)
	}
	log.Append(time.Now(), events.JobStarted{Mode: "mapreduce", MaxParallel: 1, Broker: broker})
	log.Append(time.Now(), events.JobPaused{Reason: "SIGTERM"})
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	return job
}

// A button continues a job where its items ran last: by the flags that it was begun with, if they are what led there.
func TestAButtonContinuesAJobOnItsFleet(t *testing.T) {
	dir := t.TempDir()
	writeText(t, filepath.Join(dir, "c.yml"), "role: coordinator\nurl: tls://b:4222\n")
	credentials := filepath.Join(dir, "c.yml")
	for name, c := range map[string]struct {
		broker, env string
		args        []string
		want        string // as a command line
	}{
		"here":                             {args: []string{"run", "w.yml"}},
		"here at last":                     {args: []string{"run", "w.yml", "--fleet", "tls://b:4222"}},
		"as it was begun":                  {broker: "tls://b:4222", args: []string{"run", "--fleet=tls://b:4222", "--lease", "20s", "w.yml"}, want: "--fleet tls://b:4222 --lease 20s"},
		"insecure":                         {broker: "nats://b:4222", args: []string{"run", "--fleet", "nats://b:4222", "--insecure"}, want: "--fleet nats://b:4222 --insecure"},
		"by credentials":                   {broker: "tls://b:4222", args: []string{"run", "--credentials", "c.yml"}, want: "--credentials " + credentials},
		"a password":                       {broker: "nats://xxxxx@b:4222", args: []string{"run", "--fleet", "nats://me:secret@b:4222"}, want: "--fleet nats://me:secret@b:4222"},
		"here first":                       {broker: "tls://c:4222", args: []string{"run"}, want: "--fleet tls://c:4222"},
		"the environment is so":            {broker: "tls://c:4222", env: "tls://c:4222", args: []string{"run", "--lease", "20s"}, want: "--lease 20s"},
		"the environment has the password": {broker: "nats://xxxxx@b:4222", env: "nats://me:secret@b:4222", args: []string{"run"}},
		"the environment is another":       {broker: "tls://c:4222", env: "tls://d:4222", args: []string{"run"}, want: "--fleet tls://c:4222"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("PRODIGY_HOME", t.TempDir())
			t.Setenv("PRODIGY_FLEET", c.env)
			job := jobOnAFleet(t, dir, c.broker, c.args...)
			meta, err := job.ReadMeta()
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(lastFleet(job, meta), " "); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// What the button starts is shown without the password, and does not run here what ran on a fleet.
func TestAJobOfAFleetDoesNotGoOnHereFromTheBrowser(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PRODIGY_HOME", filepath.Join(dir, "home"))
	t.Chdir(dir)
	job := jobOnAFleet(t, dir, "nats://xxxxx@b:4222", "run", "--fleet", "nats://me:s3cr3t@b:4222")
	person := newPerson(t, "--all")
	_, page := person.get("/jobs/" + job.ID)
	code, body := person.post("/jobs/"+job.ID+"/resume", url.Values{"token": {hiddenToken(page)}})
	if want := "prodigy resume " + job.ID + " --fleet nats://xxxxx@b:4222: "; code != http.StatusConflict || !strings.Contains(body, want) || strings.Contains(body, "s3cr3t") {
		t.Errorf("got %d %s, want %q", code, body, want)
	}
	if _, err := os.Stat("ran"); !os.IsNotExist(err) {
		t.Error("an item ran here")
	}
}

func writeText(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func hiddenToken(page string) string {
	m := regexp.MustCompile(`name="token" value="([^"]+)"`).FindStringSubmatch(page)
	if m == nil {
		return ""
	}
	return m[1]
}

// patience is how long an answer may take on the slowest machine.
const patience = 2 * time.Minute

// person is somebody with a browser, who has opened the address that prodigy ui printed.
type person struct {
	t      *testing.T
	client http.Client
	base   string
}

func newPerson(t *testing.T, flags ...string) person {
	t.Helper()
	server := exec.CommandContext(t.Context(), "prodigy", append([]string{"ui"}, flags...)...)
	server.Cancel = func() error { return server.Process.Signal(os.Interrupt) }
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Wait() }) // it was interrupted
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	base, query, _ := strings.Cut(strings.TrimSpace(address), "/?")
	p := person{t: t, client: http.Client{Jar: jar, Timeout: patience}, base: base}
	if code, body := p.get("/?" + query); code != http.StatusOK {
		t.Fatalf("the first page: %d %s", code, body)
	}
	return p
}

func (p person) get(path string) (int, string) { return p.answer(p.client.Get(p.base + path)) }

func (p person) post(path string, form url.Values) (int, string) {
	return p.answer(p.client.PostForm(p.base+path, form))
}

func (p person) answer(resp *http.Response, err error) (int, string) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.Body.Close() != nil {
		p.t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// await asks for a page until it has the text.
func (p person) await(path, text string) {
	p.t.Helper()
	for end := time.Now().Add(patience); ; {
		_, body := p.get(path)
		if strings.Contains(body, text) {
			return
		}
		if time.Now().After(end) {
			p.t.Fatalf("%s: there is no %q in %s", path, text, body)
		}
	}
}
