package fleet

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"time"

	"prodigy/internal/agent"
	"prodigy/internal/limit"
	"prodigy/internal/outputs"
	"prodigy/internal/workflow"
)

// Stop says how far a job is to stop.
type Stop string

const (
	Hold  Stop = "hold"  // nothing begins, waits end
	Grace Stop = "grace" // what runs is ended, with the grace
	Kill  Stop = "kill"  // what runs is killed
)

// Job is what workers know of a job without being given an attempt of it.
type Job struct {
	V        int           `json:"v"`
	ID       string        `json:"id"`
	Owner    string        `json:"owner"` // of the coordinator: each has another
	Version  string        `json:"version"`
	Lease    time.Duration `json:"lease"`
	Requires []string      `json:"requires,omitempty"`
	// that its items run: those without a slash must be on the PATH of a worker
	Programs []string      `json:"programs,omitempty"`
	Dir      string        `json:"dir"`
	Probe    string        `json:"probe"` // file that is in Dir, with this as its name
	Grace    time.Duration `json:"grace"`
	Stop     Stop          `json:"stop,omitempty"`
	Over     bool          `json:"over,omitempty"`    // it has ended: what runs of it is to be killed
	Secrets  bool          `json:"secrets,omitempty"` // there are some, to be asked for
	Epoch    int64         `json:"epoch,omitempty"`   // grows with each owner
	Serial   int           `json:"serial,omitempty"`  // grows with what the owner says of it
	By       string        `json:"by,omitempty"`      // public key of who has signed it, or empty
	Sig      string        `json:"sig,omitempty"`     // in base64
	// name of the list of the files that commands run beside, unless Dir is shared
	Files string `json:"files,omitempty"`
	// Guards say what the machine of a worker must have left for it to take an attempt.
	Guards limit.Guards `json:"guards,omitzero"`
	Seed   string       `json:"seed,omitempty"` // name of what workspaces are made of, unless commands run in Dir
}

// NodesAsk asks all workers to describe themselves.
type NodesAsk struct {
	Programs []string `json:"programs,omitempty"` // as in Job, for Node.Lacks
}

// File is a file that a job has sent to workers, or that an item has left on one.
type File struct {
	Path   string `json:"path"` // with slashes, below the directory
	Size   int64  `json:"size"`
	Run    bool   `json:"run,omitempty"`    // it can be executed
	Sum    string `json:"sum"`              // SHA-256, in hex
	Object string `json:"object,omitempty"` // that has it
	Data   []byte `json:"data,omitempty"`   // that it has instead, of a small pack of objects of git
}

// Spec is what all attempts of a phase have in common. It is sent once to each worker.
type Spec struct {
	Template agent.Attempt `json:"template"`
	Seed     uint64        `json:"seed"`
	LogSteps bool          `json:"log_steps,omitempty"`
	Echo     bool          `json:"echo,omitempty"` // what commands print is shown as it comes
	Claude   []string      `json:"claude,omitempty"`
	Agents   bool          `json:"agents,omitempty"`
	Layers   []string      `json:"layers,omitempty"`

	// paths of what an item leaves, which the coordinator has to be sent
	Produces []workflow.Text `json:"produces,omitempty"`
	Setup    *agent.Attempt  `json:"setup,omitempty"` // that makes a workspace ready
}

// Task is an attempt that is given to a worker: what it has besides its spec.
type Task struct {
	agent.Assignment

	Spec string        `json:"spec,omitempty"` // name
	Wait time.Duration `json:"wait,omitempty"` // until the next try of the step that it goes on with

	// with Retrying or Again: when this was sent, by the clock of the coordinator
	Now   time.Time `json:"now,omitzero"`
	Piece *Piece    `json:"piece,omitempty"` // of all this but the token
}

// Piece is a piece of something that is too large for a message: of its JSON.
type Piece struct {
	From int    `json:"from"` // bytes before it
	Data []byte `json:"data"`
	More bool   `json:"more,omitempty"`
	Of   string `json:"of"` // digest of all
}

// Pieces returns data in pieces of at most so many bytes.
func Pieces(data []byte, most int) (pieces []Piece) {
	of := Digest(data)
	for from := 0; from < len(data); from += most {
		end := min(from+most, len(data))
		pieces = append(pieces, Piece{from, data[from:end], end < len(data), of})
	}
	return pieces
}

// Joined are pieces that have come.
type Joined struct {
	of   string
	Data []byte
}

// Join adds a piece. One that is not the next has all begin anew. It reports whether all are there.
func (j *Joined) Join(p Piece) bool {
	if p.From == 0 {
		*j = Joined{of: p.Of}
	}
	if p.Of != j.of || p.From != len(j.Data) {
		*j = Joined{}
		return false
	}
	j.Data = append(j.Data, p.Data...)
	if p.More {
		return false
	}
	if Digest(j.Data) == j.of {
		return true
	}
	*j = Joined{}
	return false
}

// Digest returns the first half of the SHA-256 of data in hexadecimal, which is enough for a name.
func Digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:16])
}

// NewTask returns the task of an attempt. The session of an AI coding CLI is not in it: it is on the machine that it
// was begun on.
func NewTask(a *agent.Attempt, spec string, now time.Time) Task {
	t := Task{Assignment: a.Assignment, Spec: spec}
	if t.Retrying != nil || t.Again != nil {
		t.Now = now.UTC()
	}
	if !a.Due.IsZero() {
		t.Wait = max(0, a.Due.Sub(now))
	}
	return t
}

// Attempt returns the attempt of a task that has arrived, in a slot.
func (t Task) Attempt(spec Spec, slot int, arrived time.Time) agent.Attempt {
	a := spec.Template
	a.Assignment, a.Worker = t.Assignment, slot
	a.CorrelationID = a.JobID + "/" + t.ItemID
	a.ID = a.CorrelationID + "/" + strconv.Itoa(t.Number)
	if t.Again != nil {
		Shift(&a.Again, Offset(t.Now, arrived))
	}
	if t.Retrying != nil {
		a.Due = arrived.Add(t.Wait)
		Shift(&a.Retrying, Offset(t.Now, arrived))
	}
	return a
}

// NewSpec returns what attempts have in common with a.
func NewSpec(a agent.Attempt) Spec {
	a.ID, a.CorrelationID, a.Worker = "", "", 0
	a.Assignment, a.Continued = agent.Assignment{}, agent.Continued{}
	return Spec{Template: a}
}

// WorkerMessage is what a worker sends to the coordinator of a job.
type WorkerMessage struct {
	V     int       `json:"v"`
	Owner string    `json:"owner"` // the coordinator that it is for
	Now   time.Time `json:"now"`   // when it was sent, by the clock of the worker
	Host  string    `json:"host,omitempty"`
	WorkerStatus
	NameSig string `json:"name_sig,omitempty"` // see Credentials
	Refuses string `json:"refuses,omitempty"`  // why it takes no part
	// with Full: what its machine has too little of for an attempt to begin
	Short   string   `json:"short,omitempty"`
	Unkept  string   `json:"unkept,omitempty"`  // with Full: why the broker does not keep what attempts have made
	Reports []Report `json:"reports,omitempty"` // those of an attempt in order
}

// CoordinatorMessage is what the coordinator of a job sends to a worker.
type CoordinatorMessage struct {
	Key   string `json:"key"`   // of the job
	Owner string `json:"owner"` // who sends it
	Round int64  `json:"round"` // of the offer that Tasks answer
	Tasks []Task `json:"tasks,omitempty"`
	Orders
}

// Orders are what a worker is told of attempts that it has.
type Orders struct {
	Acks []Ack   `json:"settled,omitempty"`
	Over []int64 `json:"over,omitempty"` // tokens that are given up: what runs of them is to be killed
	// tokens of attempts that are to be ended alone, with the grace, and reported
	End []int64 `json:"end,omitempty"`
	// tokens of attempts whose steps are not to wait any longer for their next tries
	Due   []int64 `json:"due,omitempty"`
	Again bool    `json:"again,omitempty"` // something may not have arrived: close the round and say everything again
}

// Ack says that a worker needs the reports of an attempt up to an index no more: the record of its end is on disk, or
// nobody wants them. Of what happens inside the attempt it only says that the coordinator has taken it, and will record
// it before the end. If the coordinator dies before that is on disk, it is lost.
type Ack struct {
	Token int64 `json:"token"`
	Index int   `json:"index"`
}

// ReportKind says what a Report is about.
type ReportKind string

const (
	Placed   ReportKind = "placed"   // it has run for some time
	Event    ReportKind = "event"    // something happened in it
	Printed  ReportKind = "printed"  // it printed something
	Echoed   ReportKind = "echoed"   // it printed something that is to be shown
	Parked   ReportKind = "parked"   // it waits for the next try of a step, without a slot
	Ended    ReportKind = "ended"    // it has an outcome
	Returned ReportKind = "returned" // it was stopped, and is given back
	Broken   ReportKind = "broken"   // the worker could not run it
	Dropped  ReportKind = "dropped"  // the worker had no contact and has killed it
)

// Report is what a worker says of an attempt.
type Report struct {
	V       int            `json:"v"`
	Token   int64          `json:"token"`
	Index   int            `json:"index"` // numbers the reports of the attempt
	Kind    ReportKind     `json:"kind"`
	Holder  Holder         `json:"holder"`
	Event   []byte         `json:"event,omitempty"` // a line of a log
	Entry   *outputs.Entry `json:"entry,omitempty"`
	Echo    *Echo          `json:"echo,omitempty"`
	For     time.Duration  `json:"for,omitempty"` // of Parked
	Outcome *agent.Outcome `json:"outcome,omitempty"`
	Reason  string         `json:"reason,omitempty"`
	Cut     bool           `json:"cut,omitempty"`   // of Dropped: the worker was well all the time
	Files   []File         `json:"files,omitempty"` // that the item has left, with Outcome
	Pack    *File          `json:"pack,omitempty"`  // with the objects of git of the commit of Outcome
	Piece   *Piece         `json:"piece,omitempty"` // of what follows the kind and the holder
}

// Continues reports whether there is more of a report that comes in pieces.
func (r Report) Continues() bool { return r.Piece != nil && r.Piece.More }

// Final reports whether a report is the last one of its attempt.
func (r Report) Final() bool {
	return !r.Continues() && (r.Kind == Ended || r.Kind == Dropped || r.Kind == Returned || r.Kind == Broken)
}

// Echo is a piece of what a command has printed, for agent.Echo.
type Echo struct {
	Command int    `json:"command"` // numbers the commands of the attempt, in the order of their starts
	Step    string `json:"step"`
	Try     int    `json:"try"`
	Stream  int    `json:"stream,omitempty"` // 0 is stdout, 1 stderr
	Data    []byte `json:"data,omitempty"`   // empty: the command has begun
}

// Call is a call of a method of agent.Host by a worker. It is repeated with the same ID until it is answered, and has
// its effect once.
type Call struct {
	ID     string          `json:"id"`
	Method string          `json:"method"`
	Token  int64           `json:"token,omitempty"`
	Args   json.RawMessage `json:"args"`
	Curve  string          `json:"curve"`         // public key that the answer is sealed for
	From   string          `json:"from"`          // instance
	Has    int             `json:"has,omitempty"` // bytes of the answer that have come in pieces
}

// CallAnswer answers it.
type CallAnswer struct {
	Pending bool            `json:"pending,omitempty"` // ask again
	Result  json.RawMessage `json:"result,omitempty"`
	Err     string          `json:"err,omitempty"`
	// with Err: the attempt is not to go on, by no fault of the worker
	Over   bool          `json:"over,omitempty"`
	Sealed []byte        `json:"sealed,omitempty"` // Result, for Call.Curve
	Key    string        `json:"key,omitempty"`    // public key of who sealed it
	Piece  *Piece        `json:"piece,omitempty"`  // of all this but the age
	Age    time.Duration `json:"age,omitempty"`    // how long the answer has been there, while nobody asked for it
}

// Holder is a slot of a worker.
type Holder struct {
	Instance string `json:"instance"`
	Node     string `json:"node"`
	Slot     int    `json:"slot"`
}

// WorkerStatus is what a worker reports of itself to a coordinator: what it offers, and what it holds.
type WorkerStatus struct {
	Instance string  `json:"instance"`
	Node     string  `json:"node"`            // name
	Round    int64   `json:"round"`           // of its offer
	Credit   int64   `json:"credit"`          // how many attempts it takes in this round, with those that it was given
	Slots    int     `json:"slots,omitempty"` // how many it has; none when it takes no more
	Full     bool    `json:"full,omitempty"`  // Holds is all that it has been given and that is not settled
	Holds    []int64 `json:"holds,omitempty"` // tokens
	Left     []int64 `json:"left,omitempty"`  // those of Holds that have ended, and whose reports only the broker has
	Gone     bool    `json:"gone,omitempty"`  // it ends, and holds nothing
}
