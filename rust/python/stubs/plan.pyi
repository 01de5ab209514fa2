@final
class Plan:
    """The rows of one forward: R rows, Q requests, S sampled rows, T top rows, M moves; int32 unless
    said.

    Row `j` of request `q` has logical index `kv_len + j` and lives in slot
    `page_ids[page_indptr[q] + index // page_size] * page_size + index % page_size`.
    """

    @property
    def plan_id(self) -> int:
        """To be given back with the results."""
    @property
    def is_greedy(self) -> bool:
        """Whether `commit_tokens` will do: every sampled row needs only its largest logit."""
    @property
    def is_drawable(self) -> bool:
        """Whether `commit_tokens` with `drawn` saves any logits: not all sampled rows need theirs."""
    @property
    def logit_samples(self) -> NDArray[np.int32]:
        """Indices into `sample_rows` of those whose log-probabilities are wanted, ascending, [L]: they need
        their logits, the others only a token."""
    @property
    def request_handle(self) -> NDArray[np.uint64]:
        """Handle of each request, uint64 [Q]."""
    @property
    def row_token(self) -> NDArray[np.int32]:
        """[R]; of `plan_early`, -2 - i for the token that sample row i of the plan before it gives."""
    @property
    def row_position(self) -> NDArray[np.int32]:
        """Position for rotary embedding, [R]."""
    @property
    def row_slot(self) -> NDArray[np.int32]:
        """Slot that takes the row's key and value, [R]."""
    @property
    def row_owner(self) -> NDArray[np.int32]:
        """Index of the row's request, [R]."""
    @property
    def row_parent(self) -> NDArray[np.int32]:
        """Index of the parent within the request, -1 for its first row, [R]."""
    @property
    def row_ancestors(self) -> NDArray[np.int64]:
        """Bit j = a tree row may see row j of its request, itself included; 0 in chunks, int64 [R]."""
    @property
    def request_row_start(self) -> NDArray[np.int32]:
        """[Q]."""
    @property
    def request_row_count(self) -> NDArray[np.int32]:
        """[Q]."""
    @property
    def request_kv_len(self) -> NDArray[np.int32]:
        """Tokens already in the cache, [Q]."""
    @property
    def request_kind(self) -> NDArray[np.int32]:
        """0 = chunk of a prompt (causal), 1 = tree, [Q]."""
    @property
    def page_indptr(self) -> NDArray[np.int32]:
        """[Q + 1]."""
    @property
    def page_ids(self) -> NDArray[np.int32]:
        """Pages that cover `kv_len + row_count` slots of each request."""
    @property
    def sample_rows(self) -> NDArray[np.int32]:
        """Rows whose logits are needed, ascending, [S]; S is 0 while only prompts are computed."""
    @property
    def sample_indptr(self) -> NDArray[np.int32]:
        """[Q + 1]."""
    @property
    def top_rows(self) -> NDArray[np.int32]:
        """Rows whose likeliest tokens are wanted, ascending, [T]: none, or `sample_rows` and maybe
        others."""
    @property
    def kv_move_src(self) -> NDArray[np.int32]:
        """Slots to copy from, in order, before the forward, [M]."""
    @property
    def kv_move_dst(self) -> NDArray[np.int32]:
        """Slots to copy to, [M]."""
    @property
    def request_feature(self) -> NDArray[np.int32]:
        """Row of the feature store that the first row of each request follows; -1 where that is not known, -2 where
        drafters keep nothing of the request's rows, [Q]. Empty without a drafter."""
    @property
    def request_first(self) -> NDArray[np.int32]:
        """Position of the first token of each request of which drafters keep something, [Q]; 0 but for those that
        they follow from further on. Empty without a drafter."""
    @property
    def feature_moves(self) -> NDArray[np.int32]:
        """Features to copy before the forward, from a row of the last forward to one of the store, [M, 2]."""
    @property
    def feature_copies(self) -> NDArray[np.int32]:
        """Features to copy between rows of the store, in order, after those, [M, 2]."""

@final
class DraftPlan:
    """What a drafter is asked in one level of a step: R rows, Q requests, M moves; int32 unless said.

    A row is a token after a known path: it sees the drafter's keys of the request's committed tokens, those
    of its ancestors among the rows of this step, and its own.
    """

    @property
    def drafter(self) -> int:
        """Which drafter is asked, by its number; its copies are for all of them."""
    @property
    def level(self) -> int:
        """Counts from 1."""
    @property
    def row_index(self) -> int:
        """Number of the first row among all rows of this step."""
    @property
    def row_token(self) -> NDArray[np.int32]:
        """[R]."""
    @property
    def row_position(self) -> NDArray[np.int32]:
        """Position for rotary embedding, [R]."""
    @property
    def row_request(self) -> NDArray[np.int32]:
        """Index of the row's request below, ascending, [R]."""
    @property
    def row_parent(self) -> NDArray[np.int32]:
        """Number of the parent among all rows of this step; -1 in the first level, [R]."""
    @property
    def request_kv_len(self) -> NDArray[np.int32]:
        """Tokens in the cache, [Q]."""
    @property
    def request_feature(self) -> NDArray[np.int32]:
        """Row of the feature store with the feature of the last of them, -1 for a drafter that reads none,
        [Q]."""
    @property
    def request_first(self) -> NDArray[np.int32]:
        """Position of the first of them that the rows see, [Q]: the drafter lacks keys of those before it."""
    @property
    def page_indptr(self) -> NDArray[np.int32]:
        """[Q + 1]."""
    @property
    def page_ids(self) -> NDArray[np.int32]:
        """Pages that hold the tokens in the cache."""
    @property
    def scored_indptr(self) -> NDArray[np.int32]:
        """[R + 1]."""
    @property
    def scored_token(self) -> NDArray[np.int32]:
        """Tokens whose log-probability after each row is wanted, at most 8 a row."""
    @property
    def request_fill_start(self) -> NDArray[np.int32]:
        """Position of the first token of each request that the drafter makes keys of before the rows, [Q]."""
    @property
    def fill_indptr(self) -> NDArray[np.int32]:
        """Where each request's such tokens start in `fill_token`, [Q + 1]."""
    @property
    def fill_token(self) -> NDArray[np.int32]:
        """Those tokens; none for a drafter that reads features. A request may have some and no row."""
    @property
    def kv_move_src(self) -> NDArray[np.int32]:
        """Slots to copy from before anything else, in order, [M]; the forward that follows does not."""
    @property
    def kv_move_dst(self) -> NDArray[np.int32]:
        """Slots to copy to, [M]."""
    @property
    def feature_moves(self) -> NDArray[np.int32]:
        """As of a `Plan`, [M, 2]."""
    @property
    def feature_copies(self) -> NDArray[np.int32]:
        """As of a `Plan`, [M, 2]."""
