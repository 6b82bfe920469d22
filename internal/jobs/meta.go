package jobs

import (
	"encoding/json"
	"fmt"
	"os"
	"time"
)

// Meta is job.json: how the job was started. Secrets are never in it.
type Meta struct {
	JobID        string                     `json:"job_id"`
	Workflow     string                     `json:"workflow"`      // its name
	WorkflowPath string                     `json:"workflow_path"` // as given, made absolute
	Mode         string                     `json:"mode"`
	Dir          string                     `json:"dir"` // working directory of the run
	Started      time.Time                  `json:"started"`
	Version      string                     `json:"version"`
	Seed         uint64                     `json:"seed"`
	MaxParallel  int                        `json:"max_parallel"`
	MaxDelayMS   int64                      `json:"max_delay_ms,omitempty"`
	Args         []string                   `json:"args"`
	Values       []string                   `json:"values,omitempty"` // of --args and --map
	Profile      string                     `json:"profile,omitempty"`
	Params       map[string]json.RawMessage `json:"params,omitempty"` // the values of the parameters
}

// WriteMeta writes job.json durably.
func (j Job) WriteMeta(m Meta) error {
	data, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return fmt.Errorf("write job.json: %w", err)
	}
	return WriteFile(j.MetaFile(), append(data, '\n'))
}

// ReadMeta reads job.json.
func (j Job) ReadMeta() (Meta, error) {
	data, err := os.ReadFile(j.MetaFile())
	if err != nil {
		return Meta{}, err
	}
	var m Meta
	if err := json.Unmarshal(data, &m); err != nil {
		return Meta{}, fmt.Errorf("%s: %w", j.MetaFile(), err)
	}
	return m, nil
}
