// Calls SGLang's n-gram drafter, whose sources come from its wheel, without its worker.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "ngram.h"

namespace py = pybind11;
using sglang::ngram::Ngram;
using sglang::ngram::Param;

namespace {

class Drafter {
 public:
  Drafter(size_t capacity, size_t nodes, size_t depth, size_t breadth, const std::string& mode, size_t corpus_budget) {
    Param param;
    param.enable = true;
    param.enable_router_mode = false;
    param.max_trie_depth = depth;
    param.min_bfs_breadth = 1;
    param.max_bfs_breadth = breadth;
    param.draft_token_num = nodes;
    param.match_type = mode;
    param.external_sam_budget = corpus_budget;
    ngram_ = std::make_unique<Ngram>(capacity, param);
  }

  void insert(std::vector<int32_t> tokens) {
    std::vector<std::vector<int32_t>> batch;
    batch.push_back(std::move(tokens));
    ngram_->asyncInsert(std::move(batch));
    ngram_->synchronize();
  }

  void add_corpus(const std::string& name, const std::vector<std::vector<int32_t>>& documents) {
    ngram_->startExternalCorpusLoad();
    bool first = true;
    for (const auto& document : documents) {
      if (!first) ngram_->appendExternalCorpusTokens({sglang::ngram::SuffixAutomaton::kSeparatorToken});
      ngram_->appendExternalCorpusTokens(document);
      first = false;
    }
    ngram_->finishExternalCorpusLoad(name);
  }

  // Tokens and parents of the drafted tree, -1 for its root, without the filling of short trees.
  std::pair<std::vector<int32_t>, std::vector<int32_t>> match(int64_t id, const std::vector<int32_t>& tail, size_t length) {
    auto found = ngram_->batchMatch({id}, {tail}, {length});
    const size_t n = found.token.size();
    std::vector<int32_t> tokens(found.token.begin() + 1, found.token.end());
    std::vector<int32_t> parents;
    for (size_t row = 1; row < n; ++row) {
      size_t parent = row - 1;
      while (parent > 0 && !found.mask[row * n + parent]) --parent;
      parents.push_back(static_cast<int32_t>(parent) - 1);
    }
    while (!tokens.empty() && tokens.back() == 0 && parents.back() == -1) {
      tokens.pop_back();
      parents.pop_back();
    }
    return {tokens, parents};
  }

  void erase(int64_t id) { ngram_->eraseMatchState({id}); }
  void reset() { ngram_->reset(); }

 private:
  std::unique_ptr<Ngram> ngram_;
};

}  // namespace

PYBIND11_MODULE(sglang_ngram, m) {
  py::class_<Drafter>(m, "Drafter")
      .def(py::init<size_t, size_t, size_t, size_t, const std::string&, size_t>())
      .def("insert", &Drafter::insert)
      .def("add_corpus", &Drafter::add_corpus)
      .def("match", &Drafter::match)
      .def("erase", &Drafter::erase)
      .def("reset", &Drafter::reset);
}
