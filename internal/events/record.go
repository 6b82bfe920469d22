package events

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"prodigy/internal/jobs"
	"prodigy/internal/rawjson"
)

// timeLayout always has six digits after the point, so that lines of a log align and times compare as text.
const timeLayout = "2006-01-02T15:04:05.000000Z"

// Unknown is an event of a type that this version does not have. It encodes back to the line it came from.
type Unknown struct {
	Fact

	Name string
	Raw  json.RawMessage // an object of the event's own fields
}

// subject has the fields of a line that say what it is about.
type subject struct {
	ItemID  string `json:"item_id"`
	AgentID string `json:"agent_id"`
}

// Encode returns the line of r, with its newline. The keys are seq, time, job_id, correlation_id, type, and
// then the fields of the event in the order of its struct; crc, the checksum of the line, is the last. Texts
// longer than their bounds are clipped.
func Encode(r Record) ([]byte, error) {
	r.Event = normal(r.Event)
	e := newEncoder()
	if err := e.add(r); err != nil {
		return nil, err
	}
	return e.lines.Bytes(), nil
}

// encoder collects lines.
type encoder struct {
	lines bytes.Buffer
	body  *json.Encoder
}

func newEncoder() *encoder {
	e := new(encoder)
	e.body = json.NewEncoder(&e.lines)
	e.body.SetEscapeHTML(false)
	return e
}

// add appends the line of r, whose event is normal already. After an error nothing was appended.
func (e *encoder) add(r Record) error {
	start := e.lines.Len()
	e.lines.Write(appendHead(e.lines.AvailableBuffer(), r))
	join := e.lines.Len()
	if err := e.addBody(r.Event); err != nil {
		e.lines.Truncate(start)
		return fmt.Errorf("encode %s: %w", TypeOf(r.Event), err)
	}
	line := e.lines.Bytes()
	if string(line[join:]) == "{}\n" {
		e.lines.Truncate(join)
	} else {
		line[join] = ','
		e.lines.Truncate(len(line) - len("}\n"))
	}
	e.lines.Write(jobs.AppendSeal(e.lines.AvailableBuffer(), e.lines.Bytes()[start:]))
	return e.lines.WriteByte('\n')
}

func (e *encoder) addBody(ev Event) error {
	u, ok := ev.(Unknown)
	if !ok {
		return e.body.Encode(ev)
	}
	if !bytes.HasPrefix(u.Raw, []byte("{")) {
		return errors.New("an unknown event whose fields are not an object")
	}
	if err := json.Compact(&e.lines, u.Raw); err != nil {
		return err
	}
	return e.lines.WriteByte('\n')
}

func appendHead(b []byte, r Record) []byte {
	b = append(b, `{"seq":`...)
	b = strconv.AppendInt(b, r.Seq, 10)
	b = append(b, `,"time":"`...)
	b = r.Time.UTC().AppendFormat(b, timeLayout)
	b = append(b, `","job_id":`...)
	b = appendQuoted(b, r.JobID)
	b = append(b, `,"correlation_id":`...)
	b = appendQuoted(b, r.CorrelationID)
	b = append(b, `,"type":`...)
	return appendQuoted(b, TypeOf(r.Event))
}

// appendQuoted appends s as a JSON string, escaped exactly as the encoder of the fields does it.
func appendQuoted(b []byte, s string) []byte {
	if plain(s) {
		b = append(b, '"')
		b = append(b, s...)
		return append(b, '"')
	}
	return append(b, rawjson.Of(s)...)
}

// plain reports whether s stands in JSON as it is.
func plain[T string | []byte](s T) bool {
	for i := range len(s) {
		if escaped[s[i]] {
			return false
		}
	}
	return true
}

// escaped are the bytes that do not stand in JSON, or not in every JSON, as they are.
var escaped = func() (set [256]bool) {
	for c := range set {
		set[c] = c < ' ' || c > '~' || c == '"' || c == '\\'
	}
	return set
}()

// Decode reads one line, with or without its newline, and checks its checksum if it has one: lines of earlier
// versions have none. An event type it does not know becomes an Unknown.
func Decode(line []byte) (Record, error) {
	line = trimLine(line)
	if _, err := jobs.CheckSeal(line); err != nil {
		return Record{}, err
	}
	return decode(line)
}

// trimLine takes the newline off a line.
func trimLine(line []byte) []byte {
	if n := len(line); n > 0 && line[n-1] <= ' ' {
		return bytes.TrimRight(line, " \t\r\n")
	}
	return line
}

// decode reads a line without its newline, whose checksum has been checked.
func decode(line []byte) (Record, error) {
	h, err := decodeHead(line)
	if err != nil {
		return Record{}, err
	}
	e, ok := h.decodeHot()
	if !ok {
		body := append(make([]byte, 0, len(h.rest)+1), '{')
		body = append(append(body, bytes.TrimPrefix(h.rest, []byte(","))...), '}')
		if e, err = decodeEvent(h.name, body); err != nil {
			return Record{}, fmt.Errorf("%s: %w", h.name, err)
		}
	}
	h.Event = e
	return h.Record, nil
}

// heading is what all records have, and what follows it in a line.
type heading struct {
	Record        // without its event
	name   string // of the event's type
	rest   []byte // the other fields, with the comma before them, without the checksum and the closing brace
}

// decodeHead reads what every record has: its number, time, ids and type, and leaves the event alone.
func decodeHead(line []byte) (heading, error) {
	line = trimLine(line)
	members := jobs.SealedMembers(line)
	if members == nil {
		return heading{}, errors.New("not a record: it does not end with a brace")
	}
	if h, ok := cutHead(members); ok {
		return h, nil
	}
	return decodeForeignHead(append(bytes.Clone(members), '}'))
}

// cutHead reads a head in the form that Encode gives it, from a line without its end. Anything else is not ok.
func cutHead(members []byte) (h heading, ok bool) {
	c := cursor{rest: members, ok: true}
	c.skip(`{"seq":`)
	h.Seq = c.number()
	c.skip(`,"time":`)
	h.Time = c.time()
	c.skip(`,"job_id":`)
	job := c.raw()
	c.skip(`,"correlation_id":`)
	h.CorrelationID = c.correlationID()
	c.skip(`,"type":`)
	h.name = c.typeName()
	h.rest = c.rest
	ok = c.ok && h.Seq > 0 && h.name != "" && (len(c.rest) == 0 || c.rest[0] == ',')
	if len(job) > len(h.CorrelationID) || h.CorrelationID[:len(job)] != string(job) {
		return h, false
	}
	h.JobID = h.CorrelationID[:len(job)]
	return h, ok
}

// decodeForeignHead reads a head in any other form: with escapes, blanks, or keys in another order.
func decodeForeignHead(line []byte) (heading, error) {
	var h struct {
		Seq           int64     `json:"seq"`
		Time          time.Time `json:"time"`
		JobID         string    `json:"job_id"`
		CorrelationID string    `json:"correlation_id"`
		Type          string    `json:"type"`
	}
	if err := json.Unmarshal(line, &h); err != nil {
		return heading{}, err
	}
	if h.Type == "" || h.Seq < 1 {
		return heading{}, errors.New("not a record: seq and type are required")
	}
	r := Record{Seq: h.Seq, Time: written(h.Time), JobID: h.JobID, CorrelationID: h.CorrelationID}
	return heading{Record: r, name: h.Type, rest: withoutHead(line)}, nil
}

// withoutHead returns what would follow the type in line if the keys of its head came first, the others in their order.
func withoutHead(line []byte) (rest []byte) {
	for quoted, value := range rawjson.Members(line) {
		switch rawjson.Unquote(quoted) {
		case "seq", "time", "job_id", "correlation_id", "type", "crc":
			continue
		}
		rest = append(append(append(rest, ','), quoted...), ':')
		rest = append(rest, value...)
	}
	return rest
}

// decodeEvent reads the fields of an event out of an object. Numbers that every record of the type has must
// be there, and within their bounds.
func decodeEvent(name string, body []byte) (Event, error) {
	byName, _ := plans()
	p, ok := byName[name]
	if !ok {
		if !json.Valid(body) {
			return nil, errors.New("the line is not JSON")
		}
		return Unknown{Name: name, Raw: body}, nil
	}
	v := reflect.New(p.Type).Elem()
	for _, f := range p.required {
		v.FieldByIndex(f.Index).SetInt(absent)
	}
	if err := json.Unmarshal(body, v.Addr().Interface()); err != nil {
		return nil, err
	}
	for _, f := range p.required {
		if v.FieldByIndex(f.Index).Int() == absent {
			return nil, fmt.Errorf("%s is missing", jsonName(f))
		}
	}
	if err := checkCounts(v, p.counts); err != nil {
		return nil, err
	}
	return p.normal.apply(v.Interface().(Event), nil), nil
}

// absent stands in a number until it has been read.
const absent = math.MinInt64

// jsonName returns the name of a field in the log.
func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}
