//! A strategy whose decisions are those of a program.

use std::collections::{BTreeMap, BTreeSet};

use super::{Heard, Order, Proposal, ProtocolError, Said, heard, shown};
use crate::search::desk::{Desk, Standing, ranking};
use crate::search::{Asked, Best, Digest, End, NotAwaited, Progress, Setup, Strategy, Told};
use crate::units::Span;

/// A program that a driver runs.
pub trait Program: Send {
    /// Hands it a line, without its end. The first line starts it.
    ///
    /// # Errors
    /// It cannot be started, or does not take the line.
    fn say(&mut self, line: &str) -> Result<(), Wrong>;

    /// The line that it answers, without its end, of at most [`super::LINE_MAX`] bytes.
    ///
    /// # Errors
    /// None came.
    fn hear(&mut self) -> Result<Vec<u8>, Wrong>;

    /// Ends it, if it runs. Gives the last lines that it wrote for people.
    fn end(&mut self) -> Vec<String>;
}

/// What is wrong with a program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Wrong {
    /// It could not be started.
    #[error("the search program cannot be started: {0}")]
    Start(String),
    /// The shell does not find it.
    #[error("the shell cannot run the search program `{0}`: mend the command after `external:`")]
    Unknown(String),
    /// It ended by itself.
    #[error(
        "the search program ended, with exit code {code}, though it was to go on: \
         one that has no more to try answers finished"
    )]
    Ended {
        /// As the shell gives it: 128 and the signal for one that was killed.
        code: i32,
    },
    /// It goes on, but cannot be heard any more.
    #[error("the search program closed its output, and so cannot answer")]
    Closed,
    /// It did not answer in time.
    #[error(
        "the search program did not answer within {within}: if that is too short for it, begin \
         its command with a longer time, as in external:timeout=10min,COMMAND"
    )]
    Silent {
        /// How long it was waited for.
        within: Span,
    },
    /// It did not read in time.
    #[error("the search program read nothing for {within}: it must read each line that it is told")]
    Deaf {
        /// How long it was waited for.
        within: Span,
    },
    /// It spoke before it was asked.
    #[error("the search program wrote {shown} unasked: it answers each ask with one line")]
    Unasked {
        /// The beginning of it.
        shown: String,
    },
    /// It named two trials alike.
    #[error(
        "the search program named a second trial {id}: each has an `id` of its own, also those \
         of an earlier life that it is told of"
    )]
    Twice {
        /// The name.
        id: String,
    },
    /// Its answer cannot be used.
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
    /// The user ended the search meanwhile.
    #[error("interrupted while the search program was asked")]
    Interrupted,
}

impl Wrong {
    /// It wrote `text` before it was asked.
    pub fn unasked(text: &str) -> Self {
        Self::Unasked { shown: shown(text) }
    }
}

/// Why a program decides no more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramError {
    /// What is wrong.
    pub wrong: Wrong,
    /// The last lines that it wrote for people.
    pub last: Vec<String>,
}

impl std::fmt::Display for ProgramError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.wrong)?;
        if !self.last.is_empty() {
            write!(f, "\nThe last that it said:")?;
        }
        self.last.iter().try_for_each(|line| write!(f, "\n  | {line}"))
    }
}

impl std::error::Error for ProgramError {}

/// A search in which a program decides.
///
/// The program is started when it is first asked, so that a search that had ended does not start it
/// again. What it decides is no function of what it was told; therefore a journal keeps each trial
/// as the program wrote it ([`crate::search::Trial::written`]), and hands those that were told back
/// when it resumes. To the program a resumed search looks like one long conversation.
pub struct External {
    program: Box<dyn Program>,
    batch: usize,
    seed: u64,
    desk: Desk<Proposal>,
    /// Candidates of the present batch.
    batch_size: u64,
    /// Names of trials, as JSON.
    ids: BTreeSet<String>,
    /// Runs of each candidate that were asked for.
    runs: BTreeMap<Digest, u32>,
    /// Candidates at the greatest fidelity so far: a shorter run does not compare with a longer.
    standings: Vec<Standing>,
    fidelity: f64,
    /// Lines that the program hears once it is started; none when it is.
    earlier: Option<Vec<String>>,
    end: Option<End>,
}

impl External {
    /// A search that `program` decides. Trials of an earlier life, with their numbers, are awaited
    /// at once: tell them again, in the order in which they were told then.
    ///
    /// # Errors
    /// Two of those trials have one name.
    pub fn new(
        order: &Order,
        setup: &Setup,
        program: Box<dyn Program>,
        earlier: BTreeMap<u64, Proposal>,
    ) -> Result<Self, Wrong> {
        let mut search = Self {
            program,
            batch: order.batch,
            seed: setup.seed,
            desk: Desk::new(setup, order.faults),
            batch_size: 0,
            ids: BTreeSet::new(),
            runs: BTreeMap::new(),
            standings: Vec::new(),
            fidelity: 0.0,
            earlier: Some(Vec::new()),
            end: None,
        };
        for (number, proposal) in earlier {
            search.desk.number_from(number);
            search.post(proposal)?;
        }
        Ok(search)
    }

    /// Asks the program for trials.
    fn converse(&mut self) -> Result<(), Wrong> {
        if let Some(earlier) = self.earlier.take() {
            let hello = Said::Hello { seed: self.seed, earlier: earlier.len() as u64 };
            self.program.say(&hello.line())?;
            earlier.iter().try_for_each(|line| self.program.say(line))?;
        }
        self.program.say(&Said::Ask(self.batch).line())?;
        let line = self.program.hear()?;
        let line = std::str::from_utf8(&line).map_err(|error| ProtocolError::Unreadable {
            shown: shown(&String::from_utf8_lossy(&line)),
            why: error.to_string(),
        })?;
        match heard(line, self.batch)? {
            Heard::Finished(why) => self.end = Some(End::Finished { why }),
            Heard::Trials(proposals) => {
                self.batch_size = proposals.len() as u64;
                proposals.into_iter().try_for_each(|proposal| self.post(proposal))?;
            }
        }
        Ok(())
    }

    fn post(&mut self, proposal: Proposal) -> Result<(), Wrong> {
        let id = proposal.written["id"].to_string();
        if !self.ids.insert(id.clone()) {
            return Err(Wrong::Twice { id: shown(&id) });
        }
        let (candidate, fidelity) = (proposal.candidate.clone(), proposal.fidelity);
        let runs = self.runs.entry(candidate.digest()).or_default();
        self.desk.post(&candidate, *runs, fidelity, proposal);
        *runs += 1;
        Ok(())
    }

    fn give_up(&mut self, wrong: Wrong) {
        let last = self.program.end();
        self.end = Some(End::Program(ProgramError { wrong, last }));
    }

    fn take(&mut self, trial: u64, proposal: &Proposal, score: f64) {
        if proposal.fidelity > self.fidelity {
            self.fidelity = proposal.fidelity;
            self.standings.clear();
        }
        if proposal.fidelity < self.fidelity {
            return;
        }
        let digest = proposal.candidate.digest();
        let known = self.standings.iter_mut().find(|known| known.candidate.digest() == digest);
        match known {
            Some(known) => known.take(trial, score),
            None => {
                let mut standing = Standing::new(proposal.candidate.clone());
                standing.take(trial, score);
                self.standings.push(standing);
            }
        }
    }
}

impl Strategy for External {
    /// Asks the program when all that it wanted was told; that takes as long as the program does.
    fn ask(&mut self) -> Asked {
        if self.end.is_none()
            && self.desk.is_empty()
            && let Err(wrong) = self.converse()
        {
            self.give_up(wrong);
        }
        let mut asked = self.desk.answer(self.end.as_ref());
        if let Asked::Trials(trials) = &mut asked {
            for trial in trials {
                trial.written = self.desk.tag(trial.number).map(|tag| tag.written.clone());
            }
        }
        asked
    }

    fn tell(&mut self, trial: u64, told: Told) -> Result<(), NotAwaited> {
        let run = self.desk.take(trial, told.clone())?;
        if let Ok(outcome) = &run.shown {
            self.take(trial, &run.tag, outcome.score);
        }
        self.end = self.end.take().or_else(|| self.desk.worn_out());
        let line = Said::Tell { proposal: run.tag, number: trial, told }.line();
        match &mut self.earlier {
            Some(earlier) => earlier.push(line),
            None if self.end.is_none() => {
                if let Err(wrong) = self.program.say(&line) {
                    self.give_up(wrong);
                }
            }
            None => {}
        }
        Ok(())
    }

    fn best(&self) -> Option<Best> {
        self.standings[*ranking(&self.standings).first()?].best()
    }

    fn progress(&self) -> Progress {
        Progress {
            stage: "trials of the search program",
            candidates: self.batch_size,
            candidates_left: self.desk.waiting(),
            told: self.desk.told(),
            ..Progress::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;
    use crate::search::external::proposal;
    use crate::search::{Outcome, Trial, beside_baseline};
    use serde_json::{Value, json};

    /// A program that answers one line after another, and remembers what it was told.
    struct Scripted {
        answers: std::vec::IntoIter<&'static str>,
        said: Sender<String>,
        deaf_after: usize,
    }

    impl Program for Scripted {
        fn say(&mut self, line: &str) -> Result<(), Wrong> {
            if self.deaf_after == 0 {
                return Err(Wrong::Deaf { within: Span::from_secs(1) });
            }
            self.deaf_after -= 1;
            // A test that does not look at it has dropped the other side.
            let _ = self.said.send(line.to_owned());
            Ok(())
        }

        fn hear(&mut self) -> Result<Vec<u8>, Wrong> {
            self.answers.next().map(|line| line.as_bytes().to_vec()).ok_or(Wrong::Closed)
        }

        fn end(&mut self) -> Vec<String> {
            vec!["I am gone".to_owned()]
        }
    }

    fn scripted(
        method: &str,
        answers: Vec<&'static str>,
        earlier: BTreeMap<u64, Proposal>,
        deaf_after: usize,
    ) -> (External, Receiver<String>) {
        let (said, hears) = channel();
        let order = Order::read(method).unwrap().unwrap();
        let program = Scripted { answers: answers.into_iter(), said, deaf_after };
        let search = External::new(&order, &Setup::new(7), Box::new(program), earlier).unwrap();
        (search, hears)
    }

    fn trials(search: &mut External) -> Vec<Trial> {
        match search.ask() {
            Asked::Trials(trials) => trials,
            Asked::Finished(end) => panic!("{end}"),
        }
    }

    fn scored(score: f64) -> Told {
        Told::Outcome(Outcome { score, ..Outcome::default() })
    }

    const ANSWERS: [&str; 3] = [
        r#"{"trials":[{"id":0,"window":4},{"id":"b","window":8}]}"#,
        r#"{"trials":[{"id":2,"window":4}]}"#,
        r#"{"finished":"enough"}"#,
    ];

    #[test]
    fn a_program_is_asked_and_told_and_resumed_as_in_one_conversation() {
        let (mut search, said) =
            scripted("external:batch=2,x", ANSWERS.to_vec(), BTreeMap::new(), 99);
        let first = trials(&mut search);
        assert_eq!(first, trials(&mut search));
        assert_eq!(first[1].written, Some(json!({"id": "b", "window": 8})));
        assert_eq!((first[0].seed, first[1].seed), (7, 7));
        search.tell(1, scored(5.0)).unwrap();
        search.tell(0, scored(9.0)).unwrap();
        assert!(search.tell(0, scored(9.0)).is_err());
        let second = trials(&mut search);
        assert_eq!((second[0].number, second[0].seed), (2, 8), "the second run of one candidate");
        search.tell(2, scored(2.0)).unwrap();
        let end = Asked::Finished(End::Finished { why: "enough".to_owned() });
        assert_eq!(search.ask(), end);
        let best = search.best().unwrap();
        assert_eq!((best.score, best.runs, best.trial), (5.5, 2, 0));

        // The same, after a kill between the two first tells: what was not told is asked for anew.
        let earlier = [(1, proposal(first[1].written.clone().unwrap()).unwrap())].into();
        let answers = vec![r#"{"trials":[{"id":0,"window":4}]}"#];
        let (mut resumed, heard) = scripted("external:batch=2,x", answers, earlier, 99);
        resumed.tell(1, scored(5.0)).unwrap();
        assert!(heard.try_recv().is_err(), "it was started before it was asked");
        assert_eq!(trials(&mut resumed)[0].number, 2);
        let [said, heard] = [said, heard].map(|heard| heard.try_iter().collect::<Vec<_>>());
        assert!(heard[0].contains(r#""earlier":1"#) && said[0].contains(r#""earlier":0"#));
        assert_eq!(heard[1], said[2], "the tell is the same to the last digit");
        assert_eq!(heard[2], r#"{"ask":2}"#);
    }

    #[test]
    fn what_is_wrong_ends_the_search_with_its_last_words() {
        for (answer, deaf_after, says) in [
            ("nonsense", 99, "nonsense, which is no answer"),
            (r#"{"trials":[{"id":0,"window":4},{"id":0,"window":8}]}"#, 99, "second trial 0"),
            (r#"{"trials":[{"id":0,"window":400}]}"#, 99, "`window` of 400"),
            (ANSWERS[1], 1, "read nothing for 1s"),
            (ANSWERS[1], 2, "read nothing for 1s"),
        ] {
            let (mut search, _) =
                scripted("external:batch=2,x", vec![answer], BTreeMap::new(), deaf_after);
            if let Asked::Trials(_) = search.ask() {
                search.tell(0, scored(1.0)).unwrap();
            }
            let Asked::Finished(End::Program(error)) = search.ask() else { panic!("{says}") };
            let text = error.to_string();
            assert!(text.contains(says) && text.contains("\n  | I am gone"), "{text}");
        }
    }

    #[test]
    fn faults_are_told_and_borne_for_a_while() {
        let answers =
            vec![r#"{"trials":[{"id":0,"window":4}]}"#, r#"{"trials":[{"id":1,"window":4}]}"#];
        let (mut search, said) = scripted("external:faults=1,x", answers, BTreeMap::new(), 99);
        for number in 0..2 {
            assert_eq!(trials(&mut search).len(), 1);
            search.tell(number, Told::Fault("no luck".to_owned())).unwrap();
        }
        assert!(matches!(search.ask(), Asked::Finished(End::Faults { failed: 2, .. })));
        assert_eq!(search.best(), None);
        let tell: Value = serde_json::from_str(&said.try_iter().nth(2).unwrap()).unwrap();
        assert_eq!(tell["tell"]["fault"], "no luck");
    }

    #[test]
    fn the_baseline_may_run_beside_it_and_a_pair_may_be_cut_in_two() {
        let setup = Setup { paired: true, ..Setup::new(7) };
        let order = Order::read("external:x").unwrap().unwrap();
        let start = |earlier| {
            let (said, hears) = channel();
            let answers = ANSWERS[1..].to_vec().into_iter();
            let program = Scripted { answers, said, deaf_after: 99 };
            let search = External::new(&order, &setup, Box::new(program), earlier).unwrap();
            (beside_baseline(Box::new(search), &setup), hears)
        };
        let (mut search, heard) = start(BTreeMap::new());
        let Asked::Trials(both) = search.ask() else { panic!("it has ended") };
        let written: Vec<_> = both.iter().map(|trial| trial.written.clone().unwrap()).collect();
        assert_eq!((both.len(), &written[0]), (2, &written[1]), "either may be all that is kept");
        search.tell(0, scored(10.0)).unwrap();
        // Killed here: the program was told nothing, and hears of it once the pair is whole.
        let (mut resumed, resumed_heard) =
            start([(0, proposal(written[0].clone()).unwrap())].into());
        resumed.tell(0, scored(10.0)).unwrap();
        for search in [&mut search, &mut resumed] {
            assert!(matches!(search.ask(), Asked::Trials(left) if left == both[1..]));
            search.tell(1, scored(30.0)).unwrap();
            search.ask();
            assert_eq!(search.best().unwrap().score, 30.0);
        }
        let tell = |heard: Receiver<String>| heard.try_iter().find(|line| line.contains("tell"));
        assert_eq!(tell(heard).unwrap(), tell(resumed_heard).unwrap());
    }

    #[test]
    fn only_the_longest_runs_compare() {
        let answers = vec![
            r#"{"trials":[{"id":0,"window":4,"fidelity":0.1},{"id":1,"window":8,"fidelity":0.5},
                {"id":2,"window":2,"fidelity":0.5},{"id":3,"window":1,"fidelity":0.1}]}"#,
        ];
        let (mut search, _) = scripted("external:batch=4,x", answers, BTreeMap::new(), 99);
        assert_eq!(trials(&mut search)[0].fidelity, 0.1);
        for (number, score) in [(0, 9.0), (1, 3.0), (2, 4.0), (3, 8.0)] {
            search.tell(number, scored(score)).unwrap();
        }
        assert_eq!(search.best().unwrap().candidate.label(), "fixed:2");
    }
}
