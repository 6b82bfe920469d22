package job

import (
	"bytes"
	"crypto/sha256"
	"encoding"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
	"prodigy/internal/limit"
	"prodigy/internal/retry"
)

// exactly compares all fields.
var exactly = cmp.Options{cmp.Exporter(func(reflect.Type) bool { return true }), cmpopts.EquateEmpty()}

// Every field of a state is in its JSON: what is in none of the jobs above may still be in somebody else's.
func TestTheJSONOfAStateHasAllOfIt(t *testing.T) {
	s := NewFold(errorpolicy.Policy{})
	fill(reflect.ValueOf(s).Elem(), "state")
	again, err := s.clone(errorpolicy.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(s, again, exactly); diff != "" {
		t.Errorf("the JSON lacks (-want +got):\n%s", diff)
	}
}

// fill gives something to everything that there is in v, but for what comes from the workflow.
func fill(v reflect.Value, name string) {
	v = reflect.NewAt(v.Type(), v.Addr().UnsafePointer()).Elem() // also where a field is private
	switch {
	case v.Type() == reflect.TypeFor[errorpolicy.Policy]() || v.Type() == reflect.TypeFor[limit.BreakerConfig]() || v.Type() == reflect.TypeFor[limit.Rate]() || v.Type() == reflect.TypeFor[limit.AdaptiveConfig]() || v.Type() == reflect.TypeFor[retry.Ratio]() || v.Type() == reflect.TypeFor[limit.StragglerAfter]():
	case v.Type() == reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(time.Date(2026, 11, 20, 12, 0, len(name), 1000, time.UTC)))
	case v.Type() == reflect.TypeFor[errorpolicy.Statuses]():
		v.Addr().Interface().(*errorpolicy.Statuses).Set(len(name), errorpolicy.Dead)
	case v.Type() == reflect.TypeFor[json.RawMessage]():
		v.SetBytes([]byte(`{"is":"<&>"}`))
	default:
		fillKind(v, name)
	}
}

func fillKind(v reflect.Value, name string) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), name)
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), v.Type().Field(i).Name)
		}
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, name)
		fill(value, name)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0), name)
		fill(v.Index(1), name)
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i), name)
		}
	case reflect.String:
		v.SetString("<" + name + ">")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float64:
		v.SetFloat(float64(len(name)) / 2)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(len(name)) * int64(time.Millisecond))
	case reflect.Uint8, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(len(name)))
	default:
		panic("BUG: nothing to fill " + name + " with")
	}
}

var update = flag.Bool("update", false, "write the shape of the checkpoints of a new foldVersion")

// The shape of what is written down has a version, because a checkpoint of another shape would be read as if what it lacks were nothing. Files of
// earlier versions stay as they are.
func TestAnotherShapeHasAnotherVersion(t *testing.T) {
	var shape strings.Builder
	writeShape(&shape, reflect.TypeFor[Checkpoint](), "", map[reflect.Type]bool{})
	path := fmt.Sprintf("testdata/checkpoint/shape-%d.txt", foldVersion)
	want, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) && *update {
		want, err = []byte(shape.String()), os.WriteFile(path, []byte(shape.String()), 0o644)
	}
	if err != nil {
		t.Fatalf("%v: go test ./internal/job -run TestAnotherShape -update writes the file of a new version", err)
	}
	if diff := cmp.Diff(string(want), shape.String()); diff != "" {
		t.Errorf("what a checkpoint has is not what version %d has. Increase foldVersion, and write the file of that version with -update (-want +got):\n%s", foldVersion, diff)
	}
}

// packages matches the names of packages: a type that moves keeps its shape.
var packages = regexp.MustCompile(`([\w.-]+/)*\b\w+\.`)

// writeShape writes the fields of a type, also the private ones, and what they are made of. Policies and configurations come from the workflow and
// are not in a checkpoint.
func writeShape(w *strings.Builder, typ reflect.Type, indent string, above map[reflect.Type]bool) {
	_, _ = fmt.Fprintln(w, packages.ReplaceAllString(typ.String(), ""))
	if typ == reflect.TypeFor[errorpolicy.Policy]() || typ == reflect.TypeFor[limit.BreakerConfig]() || typ.Implements(reflect.TypeFor[encoding.TextMarshaler]()) || above[typ] {
		return
	}
	indent += "  "
	switch typ.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array:
		_, _ = fmt.Fprintf(w, "%sof ", indent)
		writeShape(w, typ.Elem(), indent, above)
	case reflect.Map:
		_, _ = fmt.Fprintf(w, "%sby %v of ", indent, typ.Key())
		writeShape(w, typ.Elem(), indent, above)
	case reflect.Struct:
		above[typ] = true
		for f := range typ.Fields() {
			if f.Anonymous && f.Type.NumField() == 0 {
				continue
			}
			_, _ = fmt.Fprintf(w, "%s%s %q ", indent, f.Name, f.Tag.Get("json"))
			writeShape(w, f.Type, indent, above)
		}
		delete(above, typ)
	}
}

// foldSums are sums of all that the golden logs come to, by foldVersion. What a new one makes of them is added, never changed: a checkpoint
// of a fold that was another under the same number would be wrong, and nothing could tell.
var foldSums = map[int]string{
	32: "d482908b3128400103365d52c9327f76508d645022ba5ebc2a36672aec165562",
	33: "d482908b3128400103365d52c9327f76508d645022ba5ebc2a36672aec165562", // no second attempts
	34: "303931f94b4a6ab3c3c608564fdc70e54f867d2eb4ba3466c6d8ae2393ed6c95", // the limits in a memory of their own
	35: "494f68bc087200e8be5c30dec969627ed6285db165af845c9d45994bb8a11f39", // in another order
	36: "ab2dcafe75cc4137649c1ce5ce81c12133008f62aa4bfe18e3555b644dbabdb5", // the breaker among the limits
	37: "ab2dcafe75cc4137649c1ce5ce81c12133008f62aa4bfe18e3555b644dbabdb5", // types with other names
	38: "ab2dcafe75cc4137649c1ce5ce81c12133008f62aa4bfe18e3555b644dbabdb5", // whether an agent works in a session; stops that items are not charged
	39: "ab2dcafe75cc4137649c1ce5ce81c12133008f62aa4bfe18e3555b644dbabdb5", // one type for what limits remember
	40: "ab2dcafe75cc4137649c1ce5ce81c12133008f62aa4bfe18e3555b644dbabdb5", // a run that can be resumed is stopped, not paused
	41: "ab2dcafe75cc4137649c1ce5ce81c12133008f62aa4bfe18e3555b644dbabdb5", // how a run is about to end
	43: "ab2dcafe75cc4137649c1ce5ce81c12133008f62aa4bfe18e3555b644dbabdb5", // less that an adaptive limit remembers, and one bucket for the keys without room
	44: "bed881c56d6494d8574e5b7b3e9906db6968536f1e5b8256892dfcf993a1147e", // an attempt that runs has its AgentStarted, and work to be merged its changes
	45: "8b856d85b8ebf80cca8ba5f4c5174c82c5ecc1e54f55073d7b3ada670aca7c96", // what retries have used as the record of a failure has it
}

func TestAnotherFoldHasAnotherVersion(t *testing.T) {
	logs, err := filepath.Glob("testdata/golden/v1/*/events-*.jsonl")
	if err != nil || len(logs) == 0 {
		t.Fatalf("got %d golden logs, %v, want some", len(logs), err)
	}
	sum := sha256.New()
	for _, log := range logs {
		source, err := os.ReadFile(filepath.Join(filepath.Dir(log), "workflow.yml"))
		if err != nil {
			t.Fatal(err)
		}
		s := NewFold(parse(t, string(source)).ErrorPolicy)
		for r, err := range events.Read(filepath.Dir(log)) {
			if err == nil {
				s.Apply(r)
				err = json.NewEncoder(sum).Encode(s)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if got, want := hex.EncodeToString(sum.Sum(nil)), foldSums[foldVersion]; got != want {
		t.Errorf("fold %d: got %s, want %s: when the fold is to change, foldVersion becomes one more, and foldSums gets its sum", foldVersion, got, want)
	}
}

func FuzzCheckpoint(f *testing.F) {
	sum, err := sumOf(errorpolicy.Policy{})
	if err != nil {
		f.Fatal(err)
	}
	good, err := Checkpoint{State: NewFold(errorpolicy.Policy{}), Policy: sum}.encode()
	if err != nil {
		f.Fatal(err)
	}
	_, body, _ := bytes.Cut(good, []byte("\n"))
	f.Add(body)
	f.Add([]byte(`{"state":{"policy":null}}`))
	f.Add(bytes.Replace(body, []byte(`"circuits":{}`), []byte(`"circuits":null,"status":"ab","phases":{"map":{}}`), 1))
	f.Add(bytes.Replace(body, []byte(`"policy":{"breaker":{`), []byte(`"policy":{"breaker":null,"x":{`), 1))
	f.Fuzz(func(t *testing.T, body []byte) {
		if _, err := decodeCheckpoint(body, errorpolicy.Policy{}); err == nil && !bytes.HasPrefix(body, []byte("prodigy checkpoint ")) {
			t.Errorf("got no error for %q", body)
		}
	})
}
