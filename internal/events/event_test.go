package events

import (
	"encoding/json"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"prodigy/internal/check"
	"prodigy/internal/errorpolicy"
	"prodigy/internal/limit"
	"prodigy/internal/outputs"
	"prodigy/internal/retry"
)

var update = flag.Bool("update", false, "rewrite the golden files")

var start0 = time.Date(2026, 11, 20, 16, 15, 30, 123456000, time.UTC)

// samples returns one event of every type, with all fields filled.
func samples() []Event {
	total, code, delay, left := 3, 7, Millis(1500*time.Millisecond), Millis(time.Minute)
	at := start0.Add(time.Second)
	captured := map[string]json.RawMessage{"sum": json.RawMessage(`{"a":[1,"<2>"]}`)}
	metrics := errorpolicy.Metrics{
		TotalItems: 3, Outcomes: errorpolicy.Outcomes{Successful: 1, Failed: 1, Skipped: 1}, FailureRate: 0.25,
		ErrorTypes: map[retry.Type]int{retry.TypeTimeout: 1},
		FailurePatterns: []errorpolicy.Pattern{{
			PatternType: retry.TypeTimeout, Frequency: 3, Items: []string{"item_1"}, SuggestedAction: "Wait",
		}},
	}
	spent := new(limit.Total)
	spent.Add(limit.Use{Preset: "claude", Outcome: "success", Cost: new(limit.Dollar), Tokens: &limit.Tokens{Input: 1, Cached: 2, Output: 3}})
	shared := Fingerprint{Steps: "0a1b2c", Values: map[string]string{"RATE": "3d4e5f"}, Version: "1"}
	files := []File{{Path: "in/a b", Size: 7, Modified: start0.UnixNano(), Sum: "0123456789ab"}, {Path: "out/a b", Size: 9, Modified: start0.UnixNano()}}
	rates := []StartRate{{Limit: "40/s", PerSecond: 40, Per: "${item.host}", Step: "call"}}
	return []Event{
		JobStarted{Workflow: "w", Mode: "mapreduce", TotalItems: &total, MaxParallel: 10, Seed: 1 << 63, Version: "1.0", Base: "a1b2c3", TargetBranch: "main", Checkout: []string{"a1b2c3 refs/heads/main", " M src/a.txt", "?? notes"}, MaxCostUSD: new(limit.Dollar), InputJob: "mapreduce-20261120-161530-001k3f9", Rates: rates, Broker: "tls://broker:4222"},
		JobCompleted{DurationMS: Millis(1234567 * time.Microsecond), Metrics: metrics, Reason: "done", ReduceStale: true, ReduceHeld: true, Head: "d4e5f6", Branch: "prodigy/j", Into: "main", Spent: spent},
		JobFailed{DurationMS: Millis(time.Second), Metrics: metrics, Reason: "max_failures", Spent: spent, InputGone: true},
		JobPaused{Reason: "SIGINT", Unproven: true, AsAsked: true},
		JobResumed{Reason: "resume", Completed: 1, Pending: 2, InFlight: 3, Waiting: 1, Phase: "map", StepsDone: 1, Reduce: true, Attached: []int{4, 7}, Died: new(start0), MaxCostUSD: new(limit.Dollar), Accepted: true, Set: []string{"size=5"}, Rates: rates, Broker: "tls://broker:4222", Checkout: []string{"a1b2c3 refs/heads/main"}},
		JobCancelled{DurationMS: Millis(time.Second), Metrics: metrics, Reason: "cancelled by alice", Spent: spent},
		PauseRequested{By: "alice"},
		ContinueRequested{By: "alice"},
		DrainRequested{By: "alice"},
		StopRequested{Reason: "SIGTERM"},
		CancelRequested{By: "alice"},
		ScaleRequested{MaxParallel: 16, Was: 4, By: "alice", Fleet: true, Workers: 2},
		SkipRequested{ItemID: "item_3", ItemIndex: 3, By: "alice"},
		RetryNowRequested{ItemIDs: []string{"item_1", "item_2"}, By: "alice"},
		PhaseStarted{Phase: "map", Fingerprint: &shared},
		PhaseCompleted{Phase: "map", DurationMS: Millis(500 * time.Microsecond), Head: "d4e5f6"},
		PhaseSkipped{Phase: "reduce", Reason: "9 of 10 items succeeded, reduce_when requires success_rate >= 0.95"},
		StepCompleted{
			Phase: "setup", Step: "build", StepIndex: 1, Kind: "shell", ID: "b", Capture: "out",
			DurationMS: Millis(time.Second), ExitCode: 1, Output: "line\nline", Stderr: "warn",
			CaptureFormat: "lines", Failed: true, Skipped: true, Masked: true, Printed: true, Validation: json.RawMessage(`{"status":"complete"}`),
			Agent:   &AgentEnd{Outcome: "success", SessionID: "s", Turns: 2, CostUSD: new(limit.Dollar), JSON: json.RawMessage(`{"a":1}`), Masked: true},
			Outputs: &outputs.Span{Offset: 17, Length: 4},
		},
		StepPrinted{Phase: "merge", Step: "build/shell_0", Output: "mended"},
		StepSkipped{ItemID: "item_0", Phase: "map", Step: "build", When: "item.size > 3"},
		FingerprintChanged{Fingerprint: shared},
		ItemsSelected{TotalItems: 3, Since: &Difference{
			JobID: "i", Unchanged: 1, Changed: 3, New: 2, Failed: 1, Forced: 1, Gone: 4, LeftOut: 1, By: map[string]int{"data": 1, "uses: a.sh": 1}, ByMore: 1,
		}},
		AgentStarted{
			AttemptID: AttemptID{ItemID: "item_0", ItemIndex: 0, AgentID: "j/item_0/1", Attempt: 1},
			Worker:    2, Alone: true, Base: "a1b2c3", Fleet: true, Suspect: true, Reason: "changed: data",
			Key: "example.com", BreakerKey: "example.com",
		},
		AgentCompleted{
			AttemptID: AttemptID{ItemID: "item_0", AgentID: "j/item_0/1", Attempt: 1},
			Worker:    2, Place: Place{Node: "worker-3", Host: "a", Slot: 2}, DurationMS: Millis(time.Second),
			ExitCode: 0, ItemOutput: ItemOutput{
				Captured: captured, Output: "a < b && \"c\"", OutputFile: "f",
				OutputCRC: "1a2b3c4d",
			},
			Outputs: &outputs.Span{Offset: 1 << 40, Length: 4}, Changes: Changes{
				Commit: "d4e5f6", Files: 2,
				Insertions: 30, Deletions: 4, Discarded: 1,
			},
			ItemFiles: ItemFiles{Uses: files, Produced: files[1:]},
		},
		AgentReused{
			ItemID: "item_0", FromJob: "i", FromItem: "item_3", Attempt: 1, DurationMS: Millis(time.Second),
			ExitCode: 0, ItemOutput: ItemOutput{
				Captured: captured, Output: "out", OutputFile: "f",
				OutputCRC: "1a2b3c4d",
			},
			ItemFiles: ItemFiles{Uses: files[:1], Produced: files[1:]},
		},
		AgentFailed{
			Rule:      "claude/usage_limit",
			AttemptID: AttemptID{ItemID: "é\"1", ItemIndex: 4, AgentID: "j/é/1", Attempt: 2},
			Worker:    1, DurationMS: Millis(time.Second), ExitCode: &code,
			Place:      Place{Node: "worker-3", Host: "a", Slot: 2},
			ItemOutput: ItemOutput{Captured: captured, Output: "out", OutputFile: "f", OutputCRC: "1a2b3c4d"},
			Step:       "s", Signal: "SIGKILL", Error: "boom", Matched: "network",
			ErrorType: retry.TypeKilled, ErrorSignature: "boom", StdoutTail: "o", StderrTail: "e",
			Action: errorpolicy.Retry, Reason: "why", DelayMS: &delay, RetryAt: &at,
			Retry: &retry.State{Attempts: 2, Waited: delay, Previous: delay, Asked: delay, Alone: true, ExpiresAt: at}, Outputs: &outputs.Span{Offset: 17, Length: 4},
			Commit: "d4e5f6", Conflicts: []Conflict{{Path: "a b.go", Message: "CONFLICT (content)", With: []string{"item_1", "item_2"}}}, Resolve: true,
		},
		AgentSkipped{ItemID: "item_1", Reason: "handled"},
		AgentUsage{
			ItemID: "item_1", ItemIndex: 1, Phase: "reduce", AgentID: "j/item_1/1", Attempt: 1, Step: "fix", Preset: "claude", Model: "m", SessionID: "s",
			Outcome: "success", Rule: "claude/done", CostUSD: new(limit.USD(2_520_000)), CostSource: CostReported, AssumedUSD: limit.Dollar, Partial: true,
			Tokens: &limit.Tokens{Input: 800, Cached: 200, Output: 50}, Turns: 3, DurationMS: Millis(time.Second),
		},
		BudgetReached{LimitUSD: 25 * limit.Dollar, SpentUSD: 25*limit.Dollar + 1, NextUSD: limit.Dollar, LimitTokens: 10, SpentTokens: 11, Running: 2},
		AISessionStarted{ItemID: "item_1", Attempt: 2, Step: "s", Preset: "claude", Model: "opus", SessionID: "5f0c", Resumed: true},
		QuotaPaused{
			Pool: "claude", Kind: "quota", Scope: "five_hour", Until: time.Date(2026, 1, 2, 8, 34, 10, 0, time.UTC),
			ResetAt: new(time.Date(2026, 1, 2, 8, 34, 0, 0, time.UTC)), Item: "item_1", Error: "You've hit your 5-hour limit", Model: "opus", Step: "claude-opus-4", Near: true,
		},
		QuotaResumed{Pool: "claude", Model: "opus"},
		AgentInterrupted{
			AttemptID: AttemptID{ItemID: "item_1", AgentID: "j/item_1/1", Attempt: 1},
			Place:     Place{Node: "worker-3", Host: "a"}, Reason: "stop", Outputs: &outputs.Span{
				Offset: 17,
				Length: 4,
			},
		},
		AgentStraggling{
			AttemptID: AttemptID{ItemID: "item_1", AgentID: "j/item_1/1", Attempt: 1},
			Worker:    2, RanMS: 3000, LimitMS: 3000, After: "3×p95", PercentileMS: 1000, Attempts: 20,
		},
		AgentDuplicated{
			AttemptID: AttemptID{ItemID: "item_1", AgentID: "j/item_1/2", Attempt: 2},
			Of:        1, Worker: 3, BreakerKey: "a", Key: "b",
		},
		AgentSuperseded{
			AttemptID: AttemptID{ItemID: "item_1", AgentID: "j/item_1/1", Attempt: 1},
			By:        2, Worker: 2, DurationMS: 4000, Error: "exit code 1", ErrorType: retry.TypeCommandFailed,
			Outputs: &outputs.Span{Offset: 17, Length: 4},
		},
		AgentPlaced{
			AttemptID: AttemptID{ItemID: "item_1", AgentID: "j/item_1/1", Attempt: 1},
			Place:     Place{Node: "worker-3", Host: "a", Slot: 2},
		},
		AgentLost{
			AttemptID: AttemptID{ItemID: "item_1", AgentID: "j/item_1/1", Attempt: 1},
			Place:     Place{Node: "worker-3", Host: "a"},
			Reason:    "no word for 1m", Unbegun: true, Cut: true, Outputs: &outputs.Span{Offset: 17, Length: 4},
		},
		AgentEndedLate{
			AttemptID: AttemptID{ItemID: "item_1", AgentID: "j/item_1/1", Attempt: 1},
			Token:     12, Node: "worker-3", Slot: 2, Outcome: LateSucceeded, DurationMS: Millis(time.Second),
		},
		WorktreeCreated{Worker: 2, Base: "a1b2c3", DurationMS: Millis(time.Second), Node: "b"},
		WorktreeMerged{
			ItemIDs: []string{"item_1", "item_0"}, ItemIndexes: []int{1, 0}, Attempts: []int{1, 2}, Commits: []string{"c1", "c0"}, Head: "c0",
			Files: []int{2, 1}, Insertions: 3, Deletions: 4, DurationMS: Millis(time.Second),
		},
		WorktreeCleaned{Worker: 2, Reason: "its .git is gone", Node: "b"},
		VerifyStarted{ItemIDs: []string{"item_1", "item_0"}, Commit: "c0"},
		VerifyCompleted{Commit: "c0", Passed: true, Step: "test", Error: "exit code 1", DurationMS: Millis(time.Second)},
		AgentProgress{ItemID: "item_1", Step: "s", StepIndex: 1, Steps: 2},
		StepRetrying{
			Rule:   "claude/usage_limit",
			ItemID: "item_1", ItemIndex: 1, Step: "s", Attempt: 1, ErrorType: retry.TypeNetwork, Error: "refused", Matched: "network", ComputedDelayMS: delay,
			DelayMS: delay, AskedMS: delay, WaitedMS: delay, BudgetLeftMS: &left, BudgetExpiresAt: &at,
		},
		StepRetried{ItemID: "item_1", ItemIndex: 1},
		StepTurn{ItemID: "item_3", ItemIndex: 3, Step: "call", Position: 1, Key: "example.com", WaitedMS: delay},
		ConcurrencyChanged{Limit: 12, Before: 8, Rate: 48.5, Reason: "calls take no longer than with less concurrency"},
		RolloutStage{Stage: 1, Name: "ramp", Slots: 8, Items: 20, SuccessRate: 0.95, Successful: 19, Failed: 1},
		RolloutHeld{Stage: 1, Name: "ramp", Successful: 3, Failed: 2, Reason: "too few"},
		RetriesHeld{First: 20, Retries: 10, Ratio: 0.2},
		RetriesAllowed{},
		StartsHeld{By: "windows", Reason: "it is outside of the windows", Until: &at},
		StartsAllowed{By: "windows"},
		StepFailed{
			Rule:   "claude/usage_limit",
			ItemID: "item_1", Step: "s", Attempts: 3, Reason: retry.Exhausted, Action: "stop", Error: "refused",
			ErrorType: retry.TypeNetwork, ExitCode: &code, StdoutTail: "out", StderrTail: "err",
			Outputs: &outputs.Span{Offset: 17, Length: 4},
		},
		CircuitOpen{Scope: "workflow", Key: "example.com", ConsecutiveFailures: 5, Until: at},
		CircuitHalfOpen{Scope: "workflow", Key: "example.com"},
		CircuitClosed{Scope: "workflow", Key: "example.com", Successes: 3},
		DLQItemAdded{ItemID: "item_1", ErrorSignature: "refused", FailureCount: 2},
		DLQItemRemoved{ItemID: "item_1", Reason: "succeeded"},
		DLQItemsReprocessed{Succeeded: 1, Failed: 2},
		DLQItemsEvicted{Count: 4},
		ErrorBatch{Size: 1, Errors: []errorpolicy.BatchError{{ItemID: "item_1", ErrorType: retry.TypeTimeout, Error: "slow"}}},
	}
}

// sampleRecords returns the records of a log with one event of every type.
func sampleRecords() []Record {
	var records []Record
	for i, e := range samples() {
		r := Record{Seq: int64(i + 1), Time: start0.Add(time.Duration(i) * time.Millisecond), JobID: "j", CorrelationID: "j", Event: e}
		if Subject(e) != "" {
			r.CorrelationID = "j/" + Subject(e)
		}
		records = append(records, r)
	}
	return records
}

func encodeAll(t testing.TB, records []Record) []byte {
	t.Helper()
	var all []byte
	for _, r := range records {
		line, err := Encode(r)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, line...)
	}
	return all
}

func TestRecordsOfEveryTypeAreWrittenAsInTheGoldenFile(t *testing.T) {
	const golden = "testdata/events.golden.jsonl"
	got := encodeAll(t, sampleRecords())
	if *update {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(got), string(want)); diff != "" {
		t.Errorf("log differs from %s (-got +want):\n%s", golden, diff)
	}
}

func TestRecordsOfEveryTypeReadBackAsTheyWere(t *testing.T) {
	for _, want := range sampleRecords() {
		got, err := Decode(encodeAll(t, []Record{want}))
		if err != nil {
			t.Fatalf("%s: %v", TypeOf(want.Event), err)
		}
		if diff := cmp.Diff(got, want); diff != "" {
			t.Errorf("%s (-got +want):\n%s", TypeOf(want.Event), diff)
		}
	}
}

func TestEveryEventStructIsInTheListUnderItsOwnName(t *testing.T) {
	declared := declaredStructs(t, "Record", "Fact", "Attempt", "Conflict", "AgentEnd", "Difference")
	var listed []string
	for _, e := range types {
		name := reflect.TypeOf(e).Name()
		listed = append(listed, name)
	}
	if diff := cmp.Diff(listed, declared); diff != "" {
		t.Errorf("the list types differs from the declared structs (-got +want):\n%s", diff)
	}
}

func TestEveryTypeHasASampleWithAllItsFieldsFilled(t *testing.T) {
	all := samples()
	for i, zero := range types {
		if i >= len(all) || TypeOf(all[i]) != TypeOf(zero) {
			t.Fatalf("samples has no %s at %d: it needs one event of every type, in the order of types", TypeOf(zero), i)
		}
		e := all[i]
		v := reflect.ValueOf(e)
		for _, field := range reflect.VisibleFields(v.Type()) {
			if field.Anonymous || slices.Contains([]string{"ExitCode", "ItemIndex"}, field.Name) ||
				field.Name == "Slot" && slices.Contains([]string{"AgentInterrupted", "AgentLost"}, TypeOf(e)) {
				continue
			}
			if v.FieldByIndex(field.Index).IsZero() {
				t.Errorf("the sample of %s has no %s", TypeOf(e), field.Name)
			}
		}
	}
}

// A field called like a key of the head would stand twice in the line.
func TestNoFieldIsCalledLikeAKeyOfTheHead(t *testing.T) {
	for _, e := range types {
		typ := reflect.TypeOf(e)
		for _, field := range reflect.VisibleFields(typ) {
			if field.Anonymous {
				continue
			}
			key, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if slices.Contains([]string{"", "seq", "time", "job_id", "correlation_id", "type", "crc"}, key) {
				t.Errorf("%s.%s has the key %q", TypeOf(e), field.Name, key)
			}
		}
	}
}

// A word that the plan does not know would do nothing, also in a type of another package.
func TestEveryWordOfATagIsKnown(t *testing.T) {
	seen := map[reflect.Type]bool{}
	var visit func(reflect.Type)
	visit = func(of reflect.Type) {
		switch of.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			visit(of.Elem())
		case reflect.Struct:
			if seen[of] {
				return
			}
			seen[of] = true
			for f := range of.Fields() {
				for word := range strings.SplitSeq(f.Tag.Get("log"), ",") {
					if word != "" && !check.Among("mask told clip tail few given early", word) {
						t.Errorf("%s.%s: unknown word %q in a tag", of, f.Name, word)
					}
				}
				if masked, ok := of.FieldByName("Masked"); tagOf(f).says("told") && (!ok || masked.Type.Kind() != reflect.Bool) {
					t.Errorf("%s.%s: there is no field Masked to tell it", of, f.Name)
				}
				visit(f.Type)
			}
		}
	}
	for _, e := range types {
		visit(reflect.TypeOf(e))
	}
	if !seen[reflect.TypeFor[errorpolicy.BatchError]()] {
		t.Error("the types of other packages were not visited")
	}
}

func TestEventsWithAnItemAreAboutIt(t *testing.T) {
	for _, e := range samples() {
		want := ""
		if f := reflect.ValueOf(e).FieldByName("ItemID"); f.IsValid() {
			want = f.String()
		}
		if got := Subject(e); got != want {
			t.Errorf("%s: got %q, want %q", TypeOf(e), got, want)
		}
	}
}

func declaredStructs(t *testing.T, but ...string) []string {
	file, err := parser.ParseFile(token.NewFileSet(), "event.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok {
			return true
		}
		if _, ok := spec.Type.(*ast.StructType); ok && !slices.Contains(but, spec.Name.Name) {
			names = append(names, spec.Name.Name)
		}
		return false
	})
	return names
}

// Workers of a fleet send these events, and are not trusted with more.
func TestEventsInsideAnAttemptAreAboutThatAttempt(t *testing.T) {
	a := Attempt{ItemID: "item_7", ItemIndex: 7, Phase: "map", Attempt: 3, Node: "one"}
	var got []string
	for _, e := range samples() {
		in, ok := Within(e, a)
		if !ok {
			continue
		}
		got = append(got, TypeOf(e))
		v := reflect.ValueOf(in)
		for name, want := range map[string]any{"ItemID": a.ItemID, "ItemIndex": a.ItemIndex, "Phase": a.Phase, "Node": a.Node} {
			if f := v.FieldByName(name); f.IsValid() && f.Interface() != want {
				t.Errorf("%s: %s is %v, want %v", TypeOf(e), name, f, want)
			}
		}
		if s, ok := in.(AISessionStarted); ok && s.Attempt != a.Attempt {
			t.Errorf("the session is of attempt %d, want %d", s.Attempt, a.Attempt)
		}
	}
	want := []string{"StepSkipped", "AISessionStarted", "WorktreeCreated", "WorktreeCleaned", "AgentProgress", "StepRetrying", "StepFailed"}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("(-got +want):\n%s", diff)
	}
}
