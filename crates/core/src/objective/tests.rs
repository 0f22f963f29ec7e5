//! Objectives are read, written and computed as they promise.

use proptest::prelude::*;

use super::*;

fn read(text: &str) -> Objective {
    text.parse().unwrap_or_else(|error| panic!("{text}:\n{error}"))
}

fn run() -> Summary {
    Summary {
        tp_mb_s: 40.0,
        var_mb_s: 10.0,
        total_mb_s: 320.0,
        least_mb_s: 8.0,
        burst_mb_s: 100.0,
        p50_ms: 5.0,
        p99_ms: 50.0,
        jain: 0.5,
        ..Summary::default()
    }
}

fn score(text: &str) -> f64 {
    read(text).score(&run())
}

#[test]
fn operators_bind_as_everywhere() {
    for (text, worth) in [
        ("1 + 2 * 3 - 4 / 8", 6.5),
        ("(1 + 2) * 3", 9.0),
        ("8 - 3 - 2", 3.0),
        ("8 / 4 / 2", 1.0),
        ("8 / (4 / 2)", 4.0),
        ("-2 * -3", 6.0),
        ("2 - -3", 5.0),
        ("--tp", 40.0),
        ("-(tp + var)", -50.0),
        ("1e-3*1.5E+3", 1.5),
        ("max(1, min(tp, var), 3)", 10.0),
        ("pow(2, 10) + log(8, 2) + log(1)", 1027.0),
        ("if(cv < 0.1, tp, if(p99 >= 50, 7, 8))", 7.0),
        ("if(jain == 0.5, 1, 2) + if(jain != 0.5, 10, 20)", 21.0),
        ("if(tp > 40, 1, 2) * if(tp <= 40, 3, 4)", 6.0),
    ] {
        assert!((score(text) - worth).abs() < 1e-9, "{text} = {}", score(text));
    }
}

#[test]
fn what_has_no_finite_result_is_the_worst() {
    for text in [
        "1 / 0",
        "tp / (var - 10)",
        "0 / 0",
        "-1 / (jain - jain)",
        "log(0)",
        "log(-1)",
        "log(tp, 1)",
        "pow(-1, 0.5)",
        "pow(0, -1)",
        "pow(10, 400)",
        "-pow(10, 400)",
        "min(1, 0 / 0)",
        "max(1, log(0))",
        "if(0 / 0 < 1, 1, 2)",
        "1 / pow(10, 400)",
    ] {
        assert_eq!(score(text), WORST, "{text}");
    }
    assert_eq!(read("tp / var").score(&Summary::default()), WORST);
    // A branch that is not chosen does no harm.
    assert_eq!(score("if(tp > 0, tp, 1 / 0)"), 40.0);
}

#[test]
fn presets_are_readable_and_mean_one_thing() {
    for (at, preset) in PRESETS.iter().enumerate() {
        let objective = read(preset.name);
        assert_eq!(objective, read(preset.text));
        assert!(objective.score(&run()).is_finite(), "{}", preset.name);
        assert!(PRESETS[..at].iter().all(|other| other.name != preset.name));
        // A name that were an expression, too, would mean two things.
        let expression = parse::parse(preset.name);
        assert!(expression.is_err() || expression == parse::parse(preset.text), "{}", preset.name);
    }
    assert_eq!((read("steady").score(&run()), read(" tp-if-steady\n").score(&run())), (30.0, 0.0));
    assert_eq!(read("balanced").score(&run()), 20.0);
}

/// Place, fault, hint and remedy of each kind of mistake.
#[test]
fn mistakes_are_told_with_place_and_remedy() {
    for (text, column, width, says) in [
        ("", 1, 1, "such as tp"),
        (" \t", 1, 1, "empty"),
        ("tp - spred", 6, 5, "did you mean `spread`?"),
        ("latency", 1, 7, "the names are tp, var"),
        ("tp + mox(1, 2)", 6, 3, "did you mean `max`?"),
        ("2 * tp(1)", 5, 2, "a product needs its *"),
        ("tp + min", 6, 3, "write min(x, y, ...)"),
        ("pow(tp)", 1, 3, "takes 2 arguments but is given 1"),
        ("tp + log()", 6, 3, "1 to 2 arguments but is given 0"),
        ("if(tp < 1, 2)", 1, 2, "3 arguments but is given 2"),
        ("if(tp < 1)", 1, 2, "write if(x < y, then, else)"),
        ("if(tp < 1, 2, 3, 4)", 1, 2, "is given 4"),
        ("if(tp, 1, 2)", 6, 1, "must compare two values"),
        ("if(tp", 6, 1, "must compare two values"),
        ("if(tp var < 1, 2, 3)", 7, 3, "+ - * /"),
        ("tp < 1", 4, 1, "if(cv < 0.1, tp, 0)"),
        ("if(1 < 2 < 3, 4, 5)", 10, 1, "only stands in the first part"),
        ("(tp + 1", 1, 1, "never closed"),
        ("2 * max(tp, (var)", 8, 1, "never closed"),
        ("tp)", 3, 1, "never opened"),
        ("tp var", 4, 3, "between two values"),
        ("tp +", 5, 1, "a value is missing"),
        ("tp * / 2", 6, 1, "a value is missing"),
        ("max(, 1)", 5, 1, "a value is missing"),
        ("+tp", 1, 1, "a value is missing"),
        ("0,5 * tp", 2, 1, "decimals with a point"),
        (".5", 1, 1, "a digit before the point"),
        ("1.", 1, 2, "decimals such as"),
        ("tp - 10ms", 6, 4, "without a unit"),
        ("1e999", 1, 5, "no number that can be used"),
        ("1.2.3", 1, 5, "no number"),
        ("tp = 1", 4, 1, "write =="),
        ("tp ^ 2", 4, 1, "pow(x, y)"),
        ("ünknown + tp", 1, 7, "nothing is called"),
    ] {
        let error = text.parse::<Objective>().unwrap_err();
        assert_eq!((error.column, error.width), (column, width), "{text:?}: {error}");
        assert!(error.to_string().contains(says), "{text:?}: {error}");
    }
}

#[test]
fn a_mistake_is_marked_below_its_place() {
    let error = "tp -\t2 * vra".parse::<Objective>().unwrap_err().to_string();
    let lines: Vec<&str> = error.lines().collect();
    assert_eq!(lines[1..3], ["  | tp - 2 * vra", "  |          ^^^"]);
    // Of a long one only the neighbourhood is shown.
    let long = format!("{}vra + {}tp", "tp + ".repeat(50), "tp + ".repeat(50));
    let error = long.parse::<Objective>().unwrap_err().to_string();
    let lines: Vec<&str> = error.lines().collect();
    let at = lines[2].find('^').unwrap();
    assert_eq!(&lines[1][at..at + 3], "vra");
    assert!(lines[1].len() < 100, "{error}");
}

#[test]
fn what_is_too_deep_or_too_long_is_refused_and_the_rest_is_not() {
    let nested = |depth: usize| format!("{}tp{}", "(".repeat(depth), ")".repeat(depth));
    assert_eq!(read(&nested(64)), read("tp"));
    for text in [nested(65), "-".repeat(900) + "1", "max(1, ".repeat(65)] {
        assert_eq!(text.parse::<Objective>().unwrap_err().fault, Fault::TooDeep);
    }
    let sum = |terms: usize| vec!["1"; terms].join("+");
    assert_eq!(score(&sum(500)), 500.0);
    assert_eq!(sum(1_000_000).parse::<Objective>().unwrap_err().fault, Fault::TooLong);
    let word = "a".repeat(1_000_000);
    assert!(word.parse::<Objective>().unwrap_err().to_string().len() < 1_500);
}

#[test]
fn bursts_are_scored_over_runs() {
    let runs = [90.0, 110.0].map(|burst_mb_s| Summary { burst_mb_s, ..run() });
    assert_eq!(read("tp").score_runs(&runs, true), 100.0);
    assert_eq!(read("steady").score_runs(&runs, true), 90.0);
    assert!((read("cv").score_runs(&runs, true) - 0.1).abs() < 1e-12);
    assert_eq!(read("p99 + total").score_runs(&runs, true), 370.0);
    assert_eq!(read("var").score_runs(&runs[..1], true), 0.0);
    // Steady ones are scored run by run.
    assert_eq!(read("burst - tp").score_runs(&runs, false), 60.0);
    let lame = [run(), Summary::default()];
    assert_eq!(read("1 / tp").score_runs(&lame, false), WORST);
    assert_eq!(read("tp").score_runs(&[], false), WORST);
    assert_eq!(read("tp").score_runs(&[], true), WORST);
}

#[test]
fn they_live_in_files_as_text() {
    let text = serde_json::to_string(&read("steady")).unwrap();
    assert_eq!(text, "\"tp - 1 * var\"");
    assert_eq!(serde_json::from_str::<Objective>(&text).unwrap(), read("steady"));
    assert!(serde_json::from_str::<Objective>("\"tp -\"").is_err());
}

/// An expression as a test sees it: written with every parenthesis, computed by its own rules.
#[derive(Clone, Debug)]
enum Tree {
    Leaf(String, f64),
    Minus(Box<Self>),
    Two(char, Box<Self>, Box<Self>),
    Call(&'static str, Vec<Self>),
    If(&'static str, Box<[Self; 4]>),
}

impl Tree {
    fn text(&self) -> String {
        match self {
            Self::Leaf(text, _) => text.clone(),
            Self::Minus(of) => format!("(-{})", of.text()),
            Self::Two(mark, left, right) => format!("({}{mark}{})", left.text(), right.text()),
            Self::Call(name, of) => {
                let of: Vec<String> = of.iter().map(Self::text).collect();
                format!("{name}({})", of.join(","))
            }
            Self::If(mark, of) => {
                let [a, b, c, d] = of.as_ref().clone().map(|one| one.text());
                format!("if({a}{mark}{b},{c},{d})")
            }
        }
    }

    /// NaN stands for what has no finite value.
    fn value(&self) -> f64 {
        let value = match self {
            Self::Leaf(_, value) => *value,
            Self::Minus(of) => 0.0 - of.value(),
            Self::Two('+', left, right) => left.value() + right.value(),
            Self::Two('-', left, right) => left.value() - right.value(),
            Self::Two('*', left, right) => left.value() * right.value(),
            Self::Two(_, left, right) => left.value() / right.value(),
            Self::Call(name, of) => {
                let of: Vec<f64> = of.iter().map(Self::value).collect();
                match *name {
                    _ if of.iter().any(|one| one.is_nan()) => f64::NAN,
                    "pow" => libm::pow(of[0], of[1]),
                    "log" => libm::log(of[0]),
                    "min" => of.into_iter().min_by(f64::total_cmp).unwrap(),
                    _ => of.into_iter().max_by(f64::total_cmp).unwrap(),
                }
            }
            Self::If(mark, of) => {
                let (left, right) = (of[0].value(), of[1].value());
                let order = left.partial_cmp(&right);
                let Some(order) = order else { return f64::NAN };
                let holds = match *mark {
                    "<" => order.is_lt(),
                    "<=" => order.is_le(),
                    ">" => order.is_gt(),
                    ">=" => order.is_ge(),
                    "==" => order.is_eq(),
                    _ => order.is_ne(),
                };
                if holds { of[2].value() } else { of[3].value() }
            }
        };
        if value.is_finite() { value } else { f64::NAN }
    }
}

fn marks() -> impl Strategy<Value = char> {
    prop::sample::select(vec!['+', '-', '*', '/'])
}

fn trees() -> impl Strategy<Value = Tree> {
    let known = || {
        prop::sample::select(vec![("tp", 40.0), ("var", 10.0), ("cv", 0.25), ("within", 0.0)])
            .prop_map(|(name, value)| Tree::Leaf(name.to_owned(), value))
    };
    let literal = prop_oneof![
        (0_u32..5).prop_map(f64::from),
        (0.0..1e3),
        any::<f64>().prop_map(f64::abs).prop_filter("finite", |number| number.is_finite()),
    ]
    .prop_map(|number| Tree::Leaf(format!("{number:e}"), number));
    let leaf = prop_oneof![known(), literal];
    leaf.prop_recursive(6, 64, 4, |inner| {
        let boxed = inner.clone().prop_map(Box::new);
        let two = (marks(), boxed.clone(), boxed.clone());
        let call = prop_oneof![
            (Just("log"), prop::collection::vec(inner.clone(), 1)),
            (Just("pow"), prop::collection::vec(inner.clone(), 2)),
            (Just("min"), prop::collection::vec(inner.clone(), 2..4)),
            (Just("max"), prop::collection::vec(inner.clone(), 2..4)),
        ];
        let compare = prop::sample::select(vec!["<", "<=", ">", ">=", "==", "!="]);
        let four = [inner.clone(), inner.clone(), inner.clone(), inner].prop_map(Box::new);
        prop_oneof![
            boxed.prop_map(Tree::Minus),
            two.prop_map(|(mark, left, right)| Tree::Two(mark, left, right)),
            call.prop_map(|(name, of)| Tree::Call(name, of)),
            (compare, four).prop_map(|(mark, of)| Tree::If(mark, of)),
        ]
    })
}

proptest! {
    #[test]
    fn scores_are_those_of_a_reference(tree in trees()) {
        let expected = Some(tree.value()).filter(|value| value.is_finite()).unwrap_or(WORST);
        let found = read(&tree.text()).score(&run());
        prop_assert!(found == expected, "{}: {found} is not {expected}", tree.text());
    }

    #[test]
    fn what_is_printed_reads_back(tree in trees()) {
        let objective = read(&tree.text());
        let printed = objective.to_string();
        prop_assert_eq!(read(&printed), objective, "{}", &printed);
        prop_assert_eq!(read(&printed).to_string(), printed);
    }

    /// Without parentheses: products of each term first, then the terms from the left.
    #[test]
    fn chains_are_taken_from_the_left(
        first in 1_u32..9,
        rest in prop::collection::vec((marks(), 1_u32..9), 0..12),
    ) {
        let mut text = first.to_string();
        let (mut sum, mut sign, mut product) = (0.0, 1.0, f64::from(first));
        for (mark, number) in rest {
            text += &format!("{mark}{number}");
            let number = f64::from(number);
            match mark {
                '*' => product *= number,
                '/' => product /= number,
                _ => {
                    sum += sign * product;
                    (sign, product) = (if mark == '+' { 1.0 } else { -1.0 }, number);
                }
            }
        }
        prop_assert_eq!(score(&text), sum + sign * product, "{}", text);
    }

    #[test]
    fn nothing_makes_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Err(error) = String::from_utf8_lossy(&bytes).parse::<Objective>() {
            prop_assert!(error.column >= 1 && !error.to_string().is_empty());
        }
    }

    #[test]
    fn nothing_that_looks_like_one_makes_it_panic(
        pieces in prop::collection::vec(
            prop::sample::select(vec![
                "tp", "var", "if", "min", "log", "pow", "steady", "zz", "(", ")", ",", "+", "-",
                "*", "/", "<", ">=", "==", "=", "!", "1", "0.5", "1e9", ".", " ", "\n", "é",
            ]),
            0..40,
        ),
    ) {
        let text = pieces.concat();
        match text.parse::<Objective>() {
            Ok(objective) => {
                objective.score(&run());
                prop_assert_eq!(read(&objective.to_string()), objective);
            }
            Err(error) => {
                prop_assert!(error.column <= text.chars().count() + 1);
                prop_assert!(!error.to_string().is_empty());
            }
        }
    }
}
