package natsfleet

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"prodigy/internal/events"
	"prodigy/internal/fleet"
	"prodigy/internal/rawjson"
)

// The subjects of the fleet. What a worker sends has its id in the subject, which is the public key of its credentials
// if it has some: so the broker can hold each worker to its own. Its instance begins with the id.

// upSubject is where a worker speaks to the coordinator of a job.
func upSubject(instance, key string) string { return "prodigy.up." + fleet.IDOf(instance) + "." + key }

// outSubject is where a worker leaves reports of an attempt with the broker. The stream outStream keeps them.
func outSubject(instance, key, token string) string {
	return "prodigy.out." + fleet.IDOf(instance) + "." + key + "." + token
}

// callSubject is where a worker calls the coordinator of a job.
func callSubject(instance, key string) string {
	return "prodigy.ask." + key + ".call." + fleet.IDOf(instance)
}

// liveSubject is where a worker says which steps the attempts of a job are at. Nobody misses one that is lost.
func liveSubject(instance, key string) string {
	return "prodigy.live." + key + "." + fleet.IDOf(instance)
}

// nameSubject is where a worker answers to its name, so that no other one takes it.
func nameSubject(name string) string { return "prodigy.name." + hex.EncodeToString([]byte(name)) }

// ownerSubject is where the coordinator of a job answers that it is there.
func ownerSubject(key string) string { return "prodigy.ask." + key + ".owner" }

// downSubject is where coordinators speak to a worker.
func downSubject(instance string) string {
	return "prodigy.down." + fleet.IDOf(instance) + "." + instance
}

// jobsSubject begins the subjects on which coordinators say what workers have to know of their jobs.
const jobsSubject = "prodigy.job."

// helloSubject is where a worker asks for all jobs.
const helloSubject = "prodigy.hello"

// drainSubject is where workers are asked to end, by name.
const drainSubject = "prodigy.drain"

// nodesSubject is where all who know workers are asked for them.
const nodesSubject = "prodigy.nodes"

// mostInstance is how many bytes an instance may have. Those that brokerConn.instance makes have at most 83.
const mostInstance = 128

// validInstance reports whether a text has the form of an instance: an id, a hyphen and the name of a process, in
// letters and digits as newInstance and nkeys write them. No other text comes into a subject or into the file of
// members.
func validInstance(text string) bool {
	id, process, _ := strings.Cut(text, "-")
	return len(text) <= mostInstance && isCapital(id) && isCapital(process)
}

// isCapital reports whether a text is one or more capital letters and digits.
func isCapital(text string) bool {
	other := func(r rune) bool { return (r < 'A' || r > 'Z') && (r < '0' || r > '9') }
	return text != "" && !strings.ContainsFunc(text, other)
}

// sentBy reports whether a message with this subject can be of an instance: its id is the word at that position, from
// 0.
func sentBy(instance, subject string, position int) bool {
	words := strings.Split(subject, ".")
	return validInstance(instance) && position < len(words) && fleet.IDOf(instance) == words[position]
}

// inboxOf is the prefix of the subjects that answers to somebody go to. Nobody else may read them.
func inboxOf(id string) string { return "_INBOX_" + id }

// lineOf returns an event as a line of a log. Of that, its reader takes the event alone.
func lineOf(jobID string, e events.Event) ([]byte, error) {
	return events.Encode(events.Record{Seq: 1, Time: time.Now(), JobID: jobID, Event: e})
}

// encoded returns v as JSON, with the items in it as they are.
func encoded(v any) []byte {
	return rawjson.Of(v)
}

// keyOf returns the name of a job in the subjects of the fleet. Two homes can have jobs of one id: their seeds differ.
func keyOf(jobID string, seed uint64) string {
	safe := strings.Map(func(r rune) rune {
		if unsafeInKey(r) {
			return '_'
		}
		return r
	}, jobID)
	return fmt.Sprintf("%s-%x", safe, seed)
}

// unsafeInKey reports whether the name of a job in the subjects of the fleet, and in the file systems of workers, may
// not have a character.
func unsafeInKey(r rune) bool {
	return r != '-' && r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
}

// newInstance returns a text of capital letters and digits that nobody else ever gets.
func newInstance() string { return rand.Text() }

// every returns how often workers say what they hold.
func every(lease time.Duration) time.Duration {
	return min(max(lease/8, 250*time.Millisecond), 5*time.Second)
}
