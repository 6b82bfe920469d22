// Package fleet has what a coordinator and its workers share, whatever carries their messages: addresses and
// credentials, the messages, and the Dispatcher, which decides which worker gets an attempt and which attempts are
// lost.
//
// The coordinator is the process that runs the job, and the only one that decides. An attempt has a token, the number
// of the record of its start. Workers offer slots, and the Dispatcher gives each token to at most one of them. So
// messages may be lost, repeated or late.
package fleet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"prodigy/internal/agent"
	"prodigy/internal/events"
	"prodigy/internal/limit"
	"prodigy/internal/mapreduce"
	"prodigy/internal/workflow"
)

// Protocol is the version of the messages. Coordinators and workers of different protocols do not work together.
const Protocol = 17

// ErrRefused is what errors of Refusef are.
var ErrRefused = errors.New("refused")

// refusal is an error of Refusef.
type refusal struct{ error }

func (r refusal) Unwrap() error      { return r.error }
func (refusal) Is(target error) bool { return target == ErrRefused }

// Refusef is fmt.Errorf for what is not done because of how it was asked for. Nothing has run then, and asking again
// changes nothing. The error is ErrRefused.
func Refusef(format string, args ...any) error { return refusal{fmt.Errorf(format, args...)} }

// DefaultPort is that of a broker whose address names none.
const DefaultPort = "4222"

// Limits of the lease: how long a worker may be silent before its attempts are lost.
const (
	DefaultLease = time.Minute
	LeastLease   = 15 * time.Second
	LeastHere    = 2 * time.Second // when the broker is on this machine
)

// Address says where the broker is, and who asks.
type Address struct {
	URL      string
	Insecure bool   // plain TCP is allowed past this machine
	CA       string // file of the certificate that signed that of the broker, if not one that the system knows
	Cert     string // files of a certificate of one's own and of its key, if any
	Key      string
	NKey     string // file of the seed of an NKEY, if any

	// Credentials are empty if there are none. Their URL does not count beside that of the Address.
	Credentials
}

// Credentials are a file that has all that somebody needs to take part in a fleet. They are secret.
type Credentials struct {
	Role Role   `yaml:"role"`
	Name string `yaml:"name,omitempty"`
	URL  string `yaml:"url"`
	// certificate that signed that of the broker, as PEM, if not one that the system knows
	CAPEM string `yaml:"ca,omitempty"`
	Seed  string `yaml:"seed,omitempty"` // of the NKEY that the broker knows, if any
	Sign  string `yaml:"sign,omitempty"` // of a coordinator: the seed of the key that it signs jobs with
	// of a worker: the public keys of the coordinators whose jobs it runs, if not those of all
	Trust []string `yaml:"trust,omitempty"`

	// of a coordinator or observer: the public key that has signed the names of workers, who are believed without one
	Names   string `yaml:"names,omitempty"`
	NameSig string `yaml:"name_sig,omitempty"` // of a worker: that signature of its name, and of its key
}

// ParseCredentials reads a credentials file strictly.
func ParseCredentials(data []byte) (Credentials, error) {
	d := yaml.NewDecoder(bytes.NewReader(data))
	d.KnownFields(true)
	var c Credentials
	if err := d.Decode(&c); err != nil && !errors.Is(err, io.EOF) {
		why := strings.NewReplacer("yaml: ", "", "unmarshal errors:\n  ", "", "\n ", ";",
			" in type fleet.Credentials", "", " into fleet.Credentials", "").Replace(err.Error())
		return c, fmt.Errorf("not a prodigy credentials file: %s", why)
	}
	switch {
	case !slices.Contains(append(Roles(), OwnerRole), c.Role):
		return c, fmt.Errorf("invalid role %q in the credentials file: must be coordinator, worker or observer", c.Role)
	case c.URL == "":
		return c, errors.New("not a prodigy credentials file: url is required")
	}
	return c, nil
}

// OwnerFile returns the path of the credentials of the owner of a broker on this machine, below a home. They are
// found by the address of the broker.
func OwnerFile(home, address string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		host, port = strings.Trim(address, "[]"), DefaultPort
	}
	if host == "localhost" {
		host = "127.0.0.1"
	}
	return filepath.Join(home, "brokers", strings.ReplaceAll(host, ":", "_")+"-"+port+".yml")
}

// Loopback reports whether a host is this machine.
func Loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// May returns why the holder of these credentials cannot do what a role can.
func (a Address) May(role Role) error {
	if a.Role == "" || a.Role == OwnerRole || a.Role == role || a.Role == CoordinatorRole && role == ObserverRole {
		return nil
	}
	return Refusef("these credentials have the role %s, but the role %s is required", a.Role, role)
}

// WorkerFlags returns the flags by which a worker joins the same broker.
func (a Address) WorkerFlags() string {
	if a.Role != "" && a.Role != OwnerRole {
		return "--credentials FILE"
	}
	return "--join " + ShownURL(a.URL)
}

// JobOptions are the options of a coordinator.
type JobOptions struct {
	Address
	Version  string
	Lease    time.Duration
	Patience time.Duration // how long the broker may be away before the run is asked to stop, if there is a limit
	Requires []string      // labels that a worker must have
	Programs []string      // as in Job
	Guards   limit.Guards  // what the machine of a worker must have left
	Dir      string        // directory of the run
	Layers   []string      // how AI coding CLIs are called, beside what is built in: see ai.Layer
	Agents   bool          // there are steps that need that
	// Ended reports whether a job of this home has ended, so that what the broker has of it can go, and with which
	// seed. Nil: nobody knows.
	Ended    func(jobID string) (seed uint64, ended bool)
	Files    []string        // patterns of the files that workers are sent, if they do not share Dir
	Produces []workflow.Text // paths of what an item leaves

	Notice func(text string) // takes messages for people
	Abort  func(cause error) // stops the run
}

// WorkerOptions are the options of a worker.
type WorkerOptions struct {
	Address
	Version string
	Name    string
	Slots   int
	Labels  []string
	Dir     string // where commands run, if not in the directory of the run
	Home    string // directory of private files and the register
	Environ []string
	// what this machine must have left for an attempt to begin, besides those of the job
	Guards  limit.Guards
	Machine func(dirs ...string) (limit.Machine, error) // measures that
	Grace   time.Duration
	Watcher []string // as mapreduce.Config.Watcher
	Say     func(text string)

	Drain context.Context // when it ends, the worker takes no more, and ends when it has finished what it has
}

// BrokerOptions are the options of the broker that is built in.
type BrokerOptions struct {
	Listen   string // host:port
	Store    string // directory
	Insecure bool   // everybody may use it, and it may listen on more than the loopback
	Config   string // file of a configuration of nats-server, if any
	Home     string // where the credentials of its owner are kept, who alone may use it unless there is a configuration
	Say      func(text string)
	Reload   <-chan os.Signal // each has the configuration read again
}

// InitOptions are what the files of a fleet are made for.
type InitOptions struct {
	Dir     string   // that is made
	Hosts   []string // of the brokers: names or addresses by which the others reach them
	Port    int
	Workers []string // names; each gets credentials of its own
}

// Node is a worker as it describes itself.
type Node struct {
	V        int       `json:"v"`
	Instance string    `json:"instance"` // of the process: no other worker ever has it
	Name     string    `json:"name"`
	NameSig  string    `json:"name_sig,omitempty"` // see Credentials
	Host     string    `json:"host"`
	Version  string    `json:"version"`
	Labels   []string  `json:"labels,omitempty"`
	Slots    int       `json:"slots"`
	Busy     int       `json:"busy"`
	Draining bool      `json:"draining,omitempty"`
	Began    time.Time `json:"began"`
	Now      time.Time `json:"now"` // when it says this, by its clock
	// since a coordinator heard of it last, of one that does not answer itself, or 0
	Ago   time.Duration      `json:"ago,omitempty"`
	Every time.Duration      `json:"every,omitempty"` // with Ago: how often that coordinator should hear of it
	Jobs  map[string]NodeJob `json:"jobs,omitempty"`  // by their keys
	// Short is what its machine has too little of to begin anything now.
	Short string `json:"short,omitempty"`
	// of the programs that it was asked about, those that are not on its PATH
	Lacks []string `json:"lacks,omitempty"`
}

// NodeJob is a job as a worker describes what it has of it.
type NodeJob struct {
	ID      string `json:"id"`
	Items   int    `json:"items,omitempty"`   // that have not ended
	Refuses string `json:"refuses,omitempty"` // why it takes no part
	Short   string `json:"short,omitempty"`   // what its machine has too little of to begin anything of it now
}

// IDOf returns the id that an instance begins with, which is the public key of its credentials if it has some.
func IDOf(instance string) string {
	id, _, _ := strings.Cut(instance, "-")
	return id
}

// Silent reports whether a worker does not answer, and a coordinator waits for word of it.
func (n Node) Silent() bool { return n.Ago > 3*n.Every }

// SweepOptions say what is left of jobs at the broker is to go.
type SweepOptions struct {
	Ended func(jobID string) (seed uint64, ended bool) // as in JobOptions
	Jobs  []string                                     // ids and keys of jobs that are removed also if they could go on
	Look  bool                                         // nothing is removed
}

// Leftovers is what the broker has of a job that no coordinator has now.
type Leftovers struct {
	// JobID is empty if nobody knows it.
	JobID   string `json:"job_id"`
	Key     string `json:"key"`
	Objects int    `json:"objects"`
	// Bytes is the size of the objects.
	Bytes uint64 `json:"bytes"`
	// Reports is the number of reports that workers have left.
	Reports uint64 `json:"reports"`
	// Host and PID are the machine and the process of the last coordinator, if somebody knows.
	Host string `json:"host"`
	PID  int    `json:"pid"`
	// Heard is when the coordinator was last heard of by the clock of the broker, if somebody knows.
	Heard time.Time `json:"heard"`
	// Ended means that the job is over, or that nobody will come back for it.
	Ended bool `json:"ended"`
	// Swept means that nothing of it is left.
	Swept bool `json:"removed"`
}

// Coordinator gives the attempts of one job to workers.
type Coordinator interface {
	// Executor is for mapreduce.Config.
	Executor(c agent.Config, h agent.Host) mapreduce.Executor
	// Persisted is called with records that are durable, in order.
	Persisted([]events.Record)
	// Close ends the part of this process. What still runs goes on.
	Close() error
}

// Backend joins coordinators and workers to a broker, runs a broker, and administers a fleet.
type Backend interface {
	Join(ctx context.Context, o JobOptions) (Coordinator, error)
	Work(ctx context.Context, o WorkerOptions) error
	Serve(ctx context.Context, o BrokerOptions) error
	// Nodes returns the workers that answer, and those that coordinators of running jobs have heard of and that do not
	// answer. Each that answers says which of the programs it lacks.
	Nodes(ctx context.Context, a Address, programs ...string) ([]Node, error)
	// Drain asks workers with a name to finish and end, and returns how many heard that.
	Drain(ctx context.Context, a Address, name string) (int, error)
	// Sweep removes what jobs that have ended have left at the broker, and returns that, and what else there is of jobs
	// that no coordinator has now.
	Sweep(ctx context.Context, a Address, o SweepOptions) ([]Leftovers, error)
	// Init makes the configuration of brokers and the credentials of all roles, and returns the names of the files. It
	// overwrites nothing.
	Init(o InitOptions) ([]string, error)
	// Add makes credentials for one more member of the fleet whose files are in dir. It returns the names of the files
	// that were made or changed.
	Add(dir string, role Role, name string) ([]string, error)
	// Remove has the brokers let a member in no more, and deletes its credentials in dir. It returns the names of the
	// files that were changed or deleted.
	Remove(dir string, role Role, name string) ([]string, error)
}

// Unfit says why a worker would take no part in a job, as far as its protocol, version and labels go, or "" if it
// would.
func (n Node) Unfit(j Job) string {
	switch {
	case n.Ago > 0:
		return "it does not respond"
	case n.V != j.V:
		return fmt.Sprintf("it uses fleet protocol %d, and prodigy %s uses %d", n.V, j.Version, j.V)
	case n.Version != j.Version:
		return fmt.Sprintf("it is prodigy %s, and the job is run by prodigy %s: install the same version on both",
			n.Version, j.Version)
	case n.Draining:
		return "it is draining"
	}
	for _, label := range j.Requires {
		if !slices.Contains(n.Labels, label) {
			return "it lacks " + label
		}
	}
	if len(n.Lacks) > 0 {
		return n.Lacks[0] + " is not on its PATH"
	}
	return ""
}

// ShownURL returns the address of a broker, or several with commas between them, without the users, passwords and
// tokens that may be in it.
func ShownURL(text string) string {
	var shown []string
	for one := range strings.SplitSeq(text, ",") {
		u, err := url.Parse(strings.TrimSpace(one))
		switch {
		case err != nil && strings.Contains(text, "@"):
			return "the given address" // there is no saying what of it is a password
		case err != nil:
			escaped := strconv.Quote(text)
			return escaped[1 : len(escaped)-1]
		}
		if u.User != nil {
			u.User = url.User("xxxxx")
		}
		shown = append(shown, u.String())
	}
	return strings.Join(shown, ",")
}

// Role is what somebody may do in a fleet.
type Role string

const (
	CoordinatorRole Role = "coordinator" // runs jobs
	WorkerRole      Role = "worker"      // runs attempts of them
	ObserverRole    Role = "observer"    // asks for the workers

	// OwnerRole does all of that, at a broker that its owner runs without a configuration.
	OwnerRole Role = "owner"
)

// Roles returns the roles that fleet init makes credentials for.
func Roles() []Role { return []Role{CoordinatorRole, WorkerRole, ObserverRole} }
