//! Plurals of kinds as in the names of their CustomResourceDefinitions (CT-2.3 to CT-2.9).
//!
//! Kinds are lower-cased as a whole, which hides word boundaries: the rules look at endings, and some plurals are
//! surprising. Providers follow the same convention, so these are kept.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::LazyLock;

/// The plural of a kind in lower case: `clusterclasses` for `ClusterClass`. The first match among irregular words,
/// known plurals and endings counts (CT-2.4), with surprising results for some kinds (CT-2.8).
pub fn plural(kind: &str) -> String {
    let word = kind.to_lowercase();
    if ABBREVIATIONS.contains(&&*word) {
        return word + "es";
    }
    if let Some(plural) = SINGULARS.get(&*word) {
        return (*plural).to_owned();
    }
    if UNCHANGED.contains(&&*word) || PLURALS.contains(&*word) {
        return word;
    }
    by_ending(&word).unwrap_or_else(|| if word.ends_with('s') { word } else { word + "s" })
}

/// The plural by the first matching ending (CT-2.5).
fn by_ending(word: &str) -> Option<String> {
    for (singular, plural) in ENDINGS_BY_LETTER.get(word.as_bytes().last()?)? {
        if word.ends_with(plural) {
            return Some(word.to_owned());
        }
        if let Some(stem) = word.strip_suffix(singular) {
            return Some(format!("{stem}{plural}"));
        }
    }
    None
}

/// Irregular plurals by their words. The first entry of a word counts.
static SINGULARS: LazyLock<HashMap<&str, &str>> =
    LazyLock::new(|| EXACT.iter().rev().chain(DICTIONARY.iter().rev()).copied().collect());

/// Irregular plurals.
static PLURALS: LazyLock<HashSet<&str>> =
    LazyLock::new(|| DICTIONARY.iter().chain(EXACT).map(|(_, plural)| *plural).collect());

/// Endings of words and of plurals by their last letter, in the order in which they are tried.
static ENDINGS_BY_LETTER: LazyLock<HashMap<u8, Vec<(&str, &str)>>> = LazyLock::new(|| {
    // Later entries of the dictionary precede earlier ones, and all precede the general endings.
    let unchanged = UNCHANGED.iter().rev().map(|word| (*word, *word));
    let pairs = DICTIONARY.iter().rev().copied().chain(unchanged).chain(ENDINGS.iter().copied());
    let mut by_letter = HashMap::<u8, Vec<_>>::new();
    for (singular, plural) in pairs {
        let letters: BTreeSet<u8> = [singular, plural].iter().filter_map(|ending| ending.bytes().last()).collect();
        letters.into_iter().for_each(|letter| by_letter.entry(letter).or_default().push((singular, plural)));
    }
    by_letter
});

/// Kinds that are only an abbreviation ending in S: their established plural is malformed (CT-2.9).
const ABBREVIATIONS: [&str; 8] = ["aws", "css", "dns", "https", "ips", "os", "tls", "vms"];

/// Words that equal their plural (CT-2.7).
const UNCHANGED: [&str; 24] = [
    "aircraft",
    "beef",
    "bison",
    "chassis",
    "deer",
    "fish",
    "moose",
    "police",
    "salmon",
    "series",
    "sheep",
    "shrimp",
    "species",
    "swine",
    "trout",
    "tuna",
    "media",
    "graffiti",
    "equipment",
    "information",
    "jeans",
    "money",
    "news",
    "rice",
];

/// Irregular words, also as endings of other words (CT-2.7).
const DICTIONARY: &[(&str, &str)] = &[
    ("child", "children"),
    ("foot", "feet"),
    ("goose", "geese"),
    ("man", "men"),
    ("human", "humans"),
    ("mouse", "mice"),
    ("tooth", "teeth"),
    ("woman", "women"),
    ("person", "people"),
    ("bureau", "bureaus"),
    ("criterion", "criteria"),
    ("lexicon", "lexica"),
    ("phenomenon", "phenomena"),
    ("taxon", "taxa"),
    ("medium", "media"),
    ("stadium", "stadiums"),
    ("curriculum", "curriculums"),
    ("quota", "quotas"),
    ("cactus", "cacti"),
    ("focus", "foci"),
    ("locus", "loci"),
    ("nucleus", "nuclei"),
    ("radius", "radii"),
    ("syllabus", "syllabi"),
    ("corpus", "corpora"),
    ("genus", "genera"),
    ("formula", "formulas"),
    ("vertebra", "vertebrae"),
    ("larva", "larvae"),
    ("apex", "apices"),
    ("codex", "codices"),
    ("index", "indices"),
    ("latex", "latices"),
    ("vertex", "vertices"),
    ("vortex", "vortices"),
    ("appendix", "appendices"),
    ("radix", "radices"),
    ("helix", "helices"),
    ("crisis", "crises"),
    ("ellipsis", "ellipses"),
    ("genesis", "geneses"),
    ("oasis", "oases"),
    ("thesis", "theses"),
    ("base", "bases"),
    ("basis", "bases"),
    ("abuse", "abuses"),
    ("cause", "causes"),
    ("clause", "clauses"),
    ("excuse", "excuses"),
    ("fuse", "fuses"),
    ("house", "houses"),
    ("misuse", "misuses"),
    ("muse", "muses"),
    ("pause", "pauses"),
    ("ache", "aches"),
    ("topaz", "topazes"),
    ("potato", "potatoes"),
    ("tomato", "tomatoes"),
    ("dwarf", "dwarfs"),
    ("hoof", "hoofs"),
    ("thief", "thieves"),
    ("hive", "hives"),
    ("move", "moves"),
    ("movie", "movies"),
    ("cookie", "cookies"),
    ("agenda", "agendas"),
    ("shoe", "shoes"),
];

/// Irregular words that do not apply to words with the same ending (CT-2.7).
const EXACT: &[(&str, &str)] = &[
    ("ox", "oxen"),
    ("louse", "lice"),
    ("die", "dice"),
    ("axis", "axes"),
    ("alias", "aliases"),
    ("use", "uses"),
    ("toe", "toes"),
];

/// General endings; the first match counts (CT-2.6).
const ENDINGS: &[(&str, &str)] = &[
    ("tive", "tives"),
    ("eaf", "eaves"),
    ("oaf", "oaves"),
    ("afe", "aves"),
    ("arf", "arves"),
    ("rfe", "rves"),
    ("rf", "rves"),
    ("lf", "lves"),
    ("fe", "ves"),
    ("ay", "ays"),
    ("ey", "eys"),
    ("oy", "oys"),
    ("quy", "quies"),
    ("uy", "uys"),
    ("y", "ies"),
    ("eau", "eaux"),
    ("bula", "bulae"),
    ("dula", "bulae"),
    ("lula", "bulae"),
    ("nula", "bulae"),
    ("vula", "bulae"),
    ("hedron", "hedra"),
    ("ium", "ia"),
    ("seum", "seums"),
    ("eum", "ea"),
    ("oum", "oa"),
    ("stracum", "straca"),
    ("dum", "da"),
    ("elum", "ela"),
    ("ilum", "ila"),
    ("olum", "ola"),
    ("ulum", "ula"),
    ("llum", "lla"),
    ("ylum", "yla"),
    ("imum", "ima"),
    ("ernum", "erna"),
    ("gnum", "gna"),
    ("brum", "bra"),
    ("crum", "cra"),
    ("terum", "tera"),
    ("serum", "sera"),
    ("trum", "tra"),
    ("antum", "anta"),
    ("atum", "ata"),
    ("entum", "enta"),
    ("etum", "eta"),
    ("itum", "ita"),
    ("otum", "ota"),
    ("utum", "uta"),
    ("ctum", "cta"),
    ("ovum", "ova"),
    ("trix", "trices"),
    ("iasis", "iases"),
    ("mesis", "meses"),
    ("kinesis", "kineses"),
    ("resis", "reses"),
    ("gnosis", "gnoses"),
    ("opsis", "opses"),
    ("ysis", "yses"),
    ("ouse", "ouses"),
    ("lause", "lauses"),
    ("us", "uses"),
    ("ch", "ches"),
    ("io", "ios"),
    ("sh", "shes"),
    ("ss", "sses"),
    ("ez", "ezzes"),
    ("iz", "izzes"),
    ("tz", "tzes"),
    ("zz", "zzes"),
    ("ano", "anos"),
    ("lo", "los"),
    ("to", "tos"),
    ("oo", "oos"),
    ("o", "oes"),
    ("x", "xes"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plurals_are_those_of_the_convention() {
        // CT-2.3, CT-2.5, CT-2.6, CT-2.8
        for (kind, want) in [
            ("DockerCluster", "dockerclusters"),
            ("DockerMachineTemplate", "dockermachinetemplates"),
            ("KubeadmConfig", "kubeadmconfigs"),
            ("KubeadmControlPlaneTemplate", "kubeadmcontrolplanetemplates"),
            ("ClusterClass", "clusterclasses"),
            ("IPAddress", "ipaddresses"),
            ("AWSClusterStaticIdentity", "awsclusterstaticidentities"),
            ("NetworkPolicy", "networkpolicies"),
            ("FooProxy", "fooproxies"),
            ("FooGateway", "foogateways"),
            ("FooKey", "fookeys"),
            ("FooMesh", "foomeshes"),
            ("FooBox", "fooboxes"),
            ("FooIndex", "fooindices"),
            ("FooMatrix", "foomatrices"),
            ("FooStatus", "foostatuses"),
            ("FooRadius", "fooradii"),
            ("Metal3Data", "metal3data"),
            ("FooLambda", "foolambda"),
            ("FooBeta", "foobeta"),
            ("FooExtra", "fooextra"),
            ("FooMedia", "foomedia"),
            ("FooBase", "foobases"),
            ("FooDatabase", "foodatabases"),
            ("FooHouse", "foohouses"),
            ("FooMouse", "foomice"),
            ("FooHuman", "foohumans"),
            ("FooHero", "fooheroes"),
            ("FooRepo", "foorepoes"),
            ("FooVideo", "foovideoes"),
            ("FooRadio", "fooradios"),
            ("FooPortfolio", "fooportfolios"),
            ("FooShelf", "fooshelves"),
            ("FooSafe", "foosaves"),
            ("FooPrice", "fooprice"),
            ("FooDevice", "foodevices"),
            ("FooLens", "foolens"),
            ("FooAlias", "fooalias"),
            ("FooAxis", "fooaxis"),
            ("FooQuiz", "fooquizzes"),
            ("FooBus", "foobuses"),
            ("FooHTTP", "foohttps"),
            ("FooVPC", "foovpcs"),
        ] {
            assert_eq!(plural(kind), want, "{kind}");
        }
    }

    #[test]
    fn exact_words_are_found_only_as_whole_words() {
        // CT-2.4, CT-2.7, CT-2.9
        for (kind, want) in [
            ("Axis", "axes"),
            ("Alias", "aliases"),
            ("Die", "dice"),
            ("Deer", "deer"),
            ("FooDeer", "foodeer"),
            ("People", "people"),
            ("FooPeople", "foopeople"),
            ("FooSlice", "fooslices"),
            ("DNS", "dnses"),
            ("FooDNS", "foodns"),
            ("", "s"),
        ] {
            assert_eq!(plural(kind), want, "{kind}");
        }
    }

    #[test]
    fn the_kinds_that_providers_have_are_regular() {
        for kind in ["DockerClusterTemplate", "MetalMachineTemplate", "KubeadmConfigTemplate", "ManagedControlPlane"] {
            assert_eq!(plural(kind), kind.to_lowercase() + "s");
        }
    }
}
