package jobs

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"
	"unicode/utf8"
)

// Meta is job.json: how the job was started. Secrets are never in it.
type Meta struct {
	JobID        string    `json:"job_id"`
	Workflow     string    `json:"workflow"`      // its name
	WorkflowPath string    `json:"workflow_path"` // as given, made absolute
	Mode         string    `json:"mode"`
	Dir          string    `json:"dir"` // working directory of the run
	Started      time.Time `json:"started"`
	Version      string    `json:"version"`
	Seed         uint64    `json:"seed"`
	MaxParallel  int       `json:"max_parallel"`

	// Nobody said that number: on a fleet it is that of the slots of the workers.
	OpenSlots bool `json:"open_slots,omitempty"`

	MaxDelayMS int64                      `json:"max_delay_ms,omitempty"`
	Args       []string                   `json:"args"`
	Values     []string                   `json:"values,omitempty"` // of --args and --map
	Profile    string                     `json:"profile,omitempty"`
	Params     map[string]json.RawMessage `json:"params,omitempty"`    // the values of the parameters
	Workspace  string                     `json:"workspace,omitempty"` // git, as the file or --workspace said
	WorkDir    string                     `json:"work_dir,omitempty"`  // of its workspaces
	// The earlier job whose results are taken over.
	Since *Since `json:"since,omitempty"`

	Input *Input `json:"input,omitempty"` // the job whose results are the items

	// Whose slots the items share with other jobs.
	Pool *Pool `json:"pool,omitempty"`

	// Printing is how the first run printed what items print, as those after it do. Nil means that it did not.
	Printing *Printing `json:"printing,omitempty"`

	Simulated bool `json:"simulated,omitempty"` // nothing of it has run

	// The span, of whoever started the job, that the job belongs to.
	TraceParent string `json:"trace_parent,omitempty"`

	// Raw has those of the paths above that are not UTF-8, by their names here: JSON cannot hold them.
	Raw map[string][]byte `json:"raw_paths,omitempty"`

	// Shown is workflow.yml as it may be shown, if a secret stands in it: only a run knows the values of those that a
	// command prints.
	Shown string `json:"workflow_shown,omitempty"`

	// Digests are what workflow.yml may be, by SHA-256. There are two only while a resume replaces it. Jobs
	// of earlier versions have none.
	Digests []string `json:"workflow_sha256,omitempty"`

	// Former has the SHA-256 of workflow.1.yml, workflow.2.yml and so on. It is "" where that is not known,
	// of a copy that an earlier version made.
	Former []string `json:"former_workflow_sha256,omitempty"`
}

// Input is the job whose results are the items of a job. It is chosen once: a resume takes the same.
type Input struct {
	JobID  string `json:"job_id"`
	Select string `json:"select"` // success, failed or all
}

// Printing is how a run prints what items print: as their commands print it if Mode is set, else as the output of their
// last steps if Print or KeepOrder is.
type Printing struct {
	Mode      string `json:"mode,omitempty"` // a term.EchoMode
	Tag       bool   `json:"tag,omitempty"`  // begins each line with the item
	Print     bool   `json:"print,omitempty"`
	KeepOrder bool   `json:"keep_order,omitempty"` // in the order of the items

	// Joblog is the absolute path of a file that gets a row for each item at the end of a run.
	Joblog string `json:"joblog,omitempty"`
}

// Pool names slots that jobs on one machine share.
type Pool struct {
	Name  string `json:"name"`
	Slots int    `json:"slots"`
}

// Since says which results of an earlier job a job takes over: those of items that have not changed.
type Since struct {
	JobID string   `json:"job_id"`
	Force []string `json:"force,omitempty"` // ids of items that are run all the same

	// Changed, new or failed: other items that would have to be run are left out, unless it is empty.
	Only string `json:"only,omitempty"`

	// A result counts only while the files that the agent left are as it left them.
	CheckOutputs bool `json:"check_outputs,omitempty"`
}

// DamagedError says that a file of a job is not as prodigy wrote it.
type DamagedError struct {
	Path string
	Err  error
}

// Error begins with the path.
func (e *DamagedError) Error() string { return fmt.Sprintf("%s is damaged: %v", e.Path, e.Err) }

// Unwrap returns what is wrong.
func (e *DamagedError) Unwrap() error { return e.Err }

// WriteMeta writes job.json durably, with a checksum as its last member.
func (j Job) WriteMeta(m Meta) error {
	m.Raw = nil
	for name, path := range m.paths() {
		if utf8.ValidString(*path) {
			continue
		}
		if m.Raw == nil {
			m.Raw = map[string][]byte{}
		}
		m.Raw[name] = []byte(*path)
	}
	data, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return fmt.Errorf("write job.json: %w", err)
	}
	data = append(bytes.TrimSuffix(data, []byte("\n}")), '}')
	return WriteFile(j.MetaFile(), append(Seal(data, 0), '\n'))
}

// ReadMeta reads job.json and checks it. What is wrong with its contents is a [*DamagedError].
func (j Job) ReadMeta() (Meta, error) {
	data, err := os.ReadFile(j.MetaFile())
	if err != nil {
		return Meta{}, err
	}
	m, err := decodeMeta(data)
	if err == nil {
		err = m.check(j.ID)
	}
	if err != nil {
		return Meta{}, &DamagedError{Path: j.MetaFile(), Err: err}
	}
	return m, nil
}

func decodeMeta(data []byte) (m Meta, err error) {
	data = bytes.TrimSpace(data)
	sealed, err := CheckSeal(data)
	if err != nil {
		return m, err
	}
	d := json.NewDecoder(bytes.NewReader(StripSeal(data)))
	d.DisallowUnknownFields()
	if err := d.Decode(&m); err != nil {
		return m, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return m, errors.New("trailing data after the object")
	}
	if !sealed && len(m.Digests) > 0 {
		return m, ErrNoSeal
	}
	for name, path := range m.paths() {
		if raw, ok := m.Raw[name]; ok {
			*path = string(raw)
		}
	}
	return m, nil
}

// paths returns the paths of m by their names in job.json.
func (m *Meta) paths() map[string]*string {
	return map[string]*string{"dir": &m.Dir, "workflow_path": &m.WorkflowPath, "work_dir": &m.WorkDir}
}

// check returns an error for what no job is started with.
func (m Meta) check(id string) error {
	switch {
	case m.JobID != id:
		return fmt.Errorf("it belongs to job %q", m.JobID)
	case m.Mode != "mapreduce" && m.Mode != "standard":
		return fmt.Errorf("unknown mode %q", m.Mode)
	case m.Started.IsZero():
		return errors.New("started is required")
	case m.MaxParallel < 1:
		return fmt.Errorf("invalid max_parallel %d", m.MaxParallel)
	case m.MaxDelayMS < 0 || m.MaxDelayMS > maxDelayMS:
		return fmt.Errorf("invalid max_delay_ms %d", m.MaxDelayMS)
	}
	return nil
}

// maxDelayMS is the longest delay that is a time.Duration.
const maxDelayMS = int64(1<<63-1) / int64(time.Millisecond)

// Digest returns what Digests has of a workflow.
func Digest(workflow []byte) string {
	sum := sha256.Sum256(workflow)
	return hex.EncodeToString(sum[:])
}

// ReadWorkflow reads workflow.yml, which must be the one that m was written for, as must be the former ones.
// When one is not, that is a [*DamagedError].
func (j Job) ReadWorkflow(m Meta) ([]byte, error) {
	source, err := os.ReadFile(j.WorkflowFile())
	if err != nil {
		return nil, err
	}
	if digest := Digest(source); len(m.Digests) > 0 && !slices.Contains(m.Digests, digest) {
		return nil, &DamagedError{
			Path: j.WorkflowFile(),
			Err:  fmt.Errorf("its SHA-256 is %.12s, recorded was %.12s; to change a job's workflow, use resume --workflow", digest, m.Digests[0]),
		}
	}
	for i, digest := range m.Former {
		path := j.formerWorkflow(i + 1)
		former, err := os.ReadFile(path)
		if errors.Is(err, os.ErrNotExist) && len(m.Digests) > 1 && i == len(m.Former)-1 {
			continue // a resume was killed before it copied the workflow
		}
		if found := Digest(former); err == nil && digest != "" && found != digest {
			err = fmt.Errorf("its SHA-256 is %.12s, recorded was %.12s", found, digest)
		}
		if err != nil {
			return nil, &DamagedError{Path: path, Err: err}
		}
	}
	return source, nil
}
