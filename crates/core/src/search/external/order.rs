//! How a program is written after `--method`.

use crate::parameters::{Named, Parameter, ParameterError, Parameters};
use crate::search::desk::FAULTS;
use crate::search::{MethodEntry, Setup, Strategy};
use crate::units::Span;

/// The entry of the registry. Its `build` always fails: only a driver starts programs, see
/// [`super::External`].
pub(in crate::search) const ENTRY: MethodEntry = MethodEntry {
    name: "external",
    about: "a program of your own, asked and told in JSON lines: external:[NAME=VALUE,]COMMAND",
    parameters: &[
        Parameter { name: "batch", default: "1", about: "trials asked for at once, 1 to 1000" },
        Parameter {
            name: "timeout",
            default: "60s",
            about: "how long an answer may take, 100ms to 24h; may change when a search goes on",
        },
        FAULTS,
    ],
    build: elsewhere,
};

fn elsewhere(_: &Parameters, _: &Setup) -> Result<Box<dyn Strategy>, ParameterError> {
    Err(ParameterError::Elsewhere { kind: "method", owner: ENTRY.name })
}

/// A program that is to be the method of a search.
///
/// ```
/// use afflux_core::search::external::Order;
///
/// let order = Order::read("external:batch=4,python3 mine.py --sizes 1,2").unwrap().unwrap();
/// assert_eq!((order.batch, order.command.as_str()), (4, "python3 mine.py --sizes 1,2"));
/// assert!(Order::read("sharp:m=off").is_none());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// What the shell runs.
    pub command: String,
    /// How many trials are asked for at once.
    pub batch: usize,
    /// How long an answer may take, and how long the program may leave a line unread.
    pub timeout: Span,
    /// Failed trials that the search bears.
    pub faults: u64,
}

impl Order {
    /// Reads `external:[batch=N,][timeout=SPAN,][faults=N,]COMMAND`; none if `text` names another
    /// method. The command begins where no `name=value,` with a name in small letters does, so it
    /// may hold commas, quotes and what else a shell understands.
    pub fn read(text: &str) -> Option<Result<Self, ParameterError>> {
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        (name == ENTRY.name).then(|| Self::parse(rest))
    }

    fn parse(rest: &str) -> Result<Self, ParameterError> {
        let mut begins = 0;
        while let Some((item, _)) = rest[begins..].split_once(',').filter(|(i, _)| is_value(i)) {
            begins += item.len() + 1;
        }
        let command = rest[begins..].trim();
        if command.is_empty() || is_value(command) {
            return Err(ParameterError::NoCommand { kind: "method", owner: ENTRY.name });
        }
        let named = Named { kind: "method", name: ENTRY.name, parameters: ENTRY.parameters };
        let parameters = Parameters::parse(named, &rest[..begins])?;
        Ok(Self {
            command: command.to_owned(),
            batch: parameters.count("batch", 1, 1_000)? as usize,
            timeout: parameters.span("timeout", Span::from_millis(100), Span::from_secs(86_400))?,
            faults: parameters.count(FAULTS.name, 0, 1_000_000)?,
        })
    }

    /// What makes two searches the same one. How long one waits for an answer is no part of it, so
    /// that a program that was too slow can be given more time.
    pub fn identity(&self) -> String {
        let Self { command, batch, faults, timeout: _ } = self;
        format!("{}:batch={batch},faults={faults},{command}", ENTRY.name)
    }
}

/// Whether it is `name=value`. Variables of an environment, with which a command may begin, are
/// written in capitals.
fn is_value(item: &str) -> bool {
    item.split_once('=').is_some_and(|(name, value)| {
        let small = |byte: u8| byte.is_ascii_lowercase();
        !name.is_empty() && name.bytes().all(small) && !value.contains(char::is_whitespace)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search;

    fn read(text: &str) -> Result<Order, String> {
        Order::read(text).unwrap().map_err(|error| error.to_string())
    }

    #[test]
    fn the_command_is_all_that_is_no_parameter() {
        for (text, command) in [
            ("external:python3 a.py", "python3 a.py"),
            (
                "external:batch=2,timeout=5s, sh -c 'read l, m; x=1,y=2'",
                "sh -c 'read l, m; x=1,y=2'",
            ),
            ("external:X=1,2 mine --a=1,2", "X=1,2 mine --a=1,2"),
            ("external:faults=0,a=1 b", "a=1 b"),
        ] {
            assert_eq!(read(text).unwrap().command, command);
        }
        let order = read("external:x").unwrap();
        assert_eq!((order.batch, order.timeout, order.faults), (1, Span::from_secs(60), 10));
    }

    #[test]
    fn what_is_missing_or_misspelt_is_said() {
        for (text, says) in [
            ("external", "method external needs a command, as in `external:python3 mine.py`"),
            ("external:batch=2", "needs a command"),
            ("external:batch=2, ", "needs a command"),
            ("external:timout=5s,mine", "no parameter `timout`: it takes batch, timeout, faults"),
            ("external:timeout=5,mine", "`timeout=5` is not a time from 100ms to"),
            ("external:batch=0,mine", "`batch=0`"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
        for text in ["external", "external:mine,yours", "external:batch=?,mine"] {
            assert!(search::build(text, &Setup::new(1)).is_err());
        }
        let error = search::build("external:mine", &Setup::new(1)).err().unwrap().to_string();
        assert!(error.contains("only a driver"), "{error}");
    }

    #[test]
    fn a_search_is_the_same_whatever_it_waits() {
        let same = read("external:timeout=2min,mine --fast").unwrap().identity();
        assert_eq!(same, read("external:mine --fast").unwrap().identity());
        assert_ne!(same, read("external:mine").unwrap().identity());
        assert_eq!(read(&same).unwrap().identity(), same);
    }
}
