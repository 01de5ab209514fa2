//! What a drafter of the runner's is asked about a request's draft, and how it answers.

use spectrie_types::Source;

use crate::draft::drafter::Drafter;
use crate::draft::tree_builder::ROOT;
use crate::sources::all::{DRAFT_MODEL, HEAD};
use crate::sources::asked::HeadAnswer;
use crate::sources::head_place::Place;
use crate::sources::recycled::answer::Answer;
use crate::{HeadCounts, TokenId};

/// Most tokens that a drafter is asked about at a node.
pub const MAX_NAMED: usize = 8;

/// Paths less likely than this are not asked after at any price.
const MIN_VALUE: f32 = 0.02;

/// A node of a draft that a drafter of the runner's may be asked about.
#[derive(Clone, Debug, PartialEq)]
pub struct Inquiry {
    /// Number of the node before it, as [`Drafter::answer`] gave it; `None` for the root.
    pub parent: Option<u32>,
    /// The node's token: for the root, the last one pushed.
    pub token: TokenId,
    /// Distance from the root.
    pub depth: u16,
    /// Accepted tokens that an answer is expected to add, less what their rows cost; in modes that ask whatever it
    /// costs, how likely it is that the node is reached.
    pub gain: f32,
    /// Probability that a child drafted so far is right, if the node is reached.
    pub before: f32,
    /// What a row costs in accepted tokens, if the node is reached.
    pub price: f32,
    /// What children drafted so far are expected to give above that, if the node is reached.
    pub surplus: f32,
    /// Tokens that others name here, whose probabilities are wanted too.
    pub named: Vec<TokenId>,
}

impl Inquiry {
    /// What an answer that is certain and right would add at a node that is reached.
    pub fn left(&self) -> f32 {
        self.place().left()
    }

    fn place(&self) -> Place {
        Place::new(self.depth + 1, self.before, self.price, self.surplus)
    }
}

impl Drafter {
    /// Gives a drafter of the runner's the turn, by its number below [`MAX_DRAFTERS`]; 0 has it first. The frontier,
    /// answers and silence are its own from then on, and answers of another one in this step are forgotten.
    ///
    /// [`MAX_DRAFTERS`]: spectrie_types::sizes::MAX_DRAFTERS
    pub fn turn_to(&mut self, drafter: usize) {
        self.head.turn_to(drafter);
    }

    /// Forgets the answers of a drafter of the runner's: those of a new step follow.
    pub fn forget_answers(&mut self) {
        self.head.asked.clear();
    }

    /// All that was counted of what such answers added to this request.
    pub fn head_counts(&self) -> &HeadCounts {
        &self.head.counts
    }

    /// Nodes of the last draft that may be asked about at `level`, which counts from 1: the root first,
    /// then nodes below those of the level before that were answered. A row costs `price` accepted tokens.
    /// In modes `eagle2` and `chain`, the likeliest of each level, whatever they cost, up to the last level.
    pub fn frontier(&self, level: u16, price: f32) -> Vec<Inquiry> {
        let nodes = self.builder.nodes.iter().enumerate();
        let beams = self.config.beams();
        let wanted = nodes.filter(|(_, node)| {
            let is_worth = beams.is_some() || node.value >= MIN_VALUE;
            node.depth + 1 == level && node.asked.is_none() && is_worth
        });
        let inquiries = wanted.filter_map(|(index, node)| {
            let parent = if index as u32 == ROOT {
                None
            } else {
                Some(self.builder.nodes[node.parent as usize].asked?)
            };
            Some(match beams {
                Some(_) => self.plain_inquiry(index as u32, parent),
                None => self.inquiry(index as u32, parent, level, price),
            })
        });
        let mut inquiries: Vec<Inquiry> = inquiries.collect();
        if let Some(beams) = beams {
            let is_open = usize::from(level) <= self.config.head_steps.min(self.config.max_depth);
            inquiries.sort_by(|a, b| b.gain.total_cmp(&a.gain));
            inquiries.truncate(if is_open { beams } else { 0 });
        }
        inquiries
    }

    /// An inquiry whose answer is wanted whatever it costs.
    fn plain_inquiry(&self, index: u32, parent: Option<u32>) -> Inquiry {
        let node = self.builder.nodes[index as usize];
        Inquiry {
            parent,
            token: node.token,
            depth: node.depth,
            gain: node.value,
            before: 0.0,
            price: 0.0,
            surplus: 0.0,
            named: Vec::new(),
        }
    }

    fn inquiry(&self, index: u32, parent: Option<u32>, level: u16, price: f32) -> Inquiry {
        let node = self.builder.nodes[index as usize];
        let price = (price / node.value).min(1.0);
        let (mut promised, mut surplus) = (0.0, 0.0);
        let mut named = Vec::with_capacity(MAX_NAMED);
        let after = self.builder.nodes.iter().skip(index as usize + 1);
        for child in after.filter(|child| child.parent == index) {
            promised += child.value;
            surplus += (child.value / node.value - price).max(0.0);
            if named.len() < MAX_NAMED {
                named.push(child.token);
            }
        }
        for token in self.search.expected.named(index) {
            if named.len() < MAX_NAMED && !named.contains(&token) {
                named.push(token);
            }
        }
        let before = (promised / node.value).min(1.0);
        let place = Place::new(level, before, price, surplus);
        Inquiry {
            parent,
            token: node.token,
            depth: node.depth,
            gain: node.value * self.head.expected_gain(place),
            before,
            price,
            surplus,
            named,
        }
    }

    /// Notes that an inquiry was not answered, which adds nothing.
    pub fn unanswered(&mut self, inquiry: &Inquiry) {
        self.note_question();
        self.head.note_silence(inquiry.place());
    }

    /// Takes the answer to an inquiry: the likeliest tokens, descending, with their probabilities, and
    /// those of tokens that were named; `source` says by whom. Gives its number. The next draft heeds it.
    pub fn answer(
        &mut self,
        inquiry: &Inquiry,
        likeliest: &[(TokenId, f32)],
        named: Vec<(TokenId, f32)>,
        source: Source,
    ) -> u32 {
        self.note_question();
        let answer = HeadAnswer {
            likeliest: Answer::of(likeliest),
            named,
            level: inquiry.depth + 1,
            drafter: self.head.turn(),
            origin: match source {
                Source::DraftModel => DRAFT_MODEL,
                _ => HEAD,
            },
            place: inquiry.place(),
        };
        self.head.push(inquiry.parent, inquiry.token, answer)
    }

    fn note_question(&mut self) {
        if self.head.note_question(self.request.tokens().len()) {
            self.mixer.fade_head(self.head.turn());
        }
    }
}
