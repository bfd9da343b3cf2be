#include "tools/oneflow/train/training_data.h"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "oneflow_core/base/status.h"
#include "tools/oneflow/cli/data_list.h"
#include "tools/oneflow/cli/progress_printer.h"
#include "tools/oneflow/model/encode_chat_file.h"
#include "tools/oneflow/model/encode_text_file.h"
#include "tools/oneflow/model/load_text_tokenizer.h"
#include "tools/oneflow/model/warn_of_text.h"
#include "tools/oneflow/train/records_text.h"
#include "training/chat/chat_template.h"
#include "training/checkpoint/base.h"
#include "training/data/doubt_text.h"
#include "training/data/find_files.h"
#include "training/data/text_reader.h"
#include "training/data/token_file_meta.h"
#include "training/tokenizer/tokenizer.h"
#include "training/trainer/resume.h"

namespace oneflow {
namespace {

using FilesPointer = std::shared_ptr<const TokenizerFiles>;

// A loaded tokenizer with its files.
struct LoadedTokenizer {
  Tokenizer tokenizer;
  FilesPointer files;
};

// Chats hold special tokens, whatever --special says of text.
absl::StatusOr<LoadedTokenizer> LoadWithFiles(const std::string& spec, bool chat = false) {
  ASSIGN_OR_RETURN(Tokenizer tokenizer,
                   chat ? LoadTokenizer(spec, {.special = true}) : LoadTextTokenizer(spec));
  ASSIGN_OR_RETURN(TokenizerFiles files,
                   ReadTokenizerFiles(spec, tokenizer.id, tokenizer.stops, tokenizer.config));
  return LoadedTokenizer{std::move(tokenizer), std::make_shared<TokenizerFiles>(std::move(files))};
}

// The tokenizer that the user gives, or that a checkpoint contains. It is loaded where text needs
// it.
class TextTokenizer {
 public:
  static absl::StatusOr<TextTokenizer> Make(const proto::Run& run, const DataOptions& options) {
    const std::string& checkpoint = options.checkpoint;
    TextTokenizer made;
    made.token_bytes_ = run.token_bytes();
    made.end_of_text_id_ = run.has_end_of_text_id() ? run.end_of_text_id() : -1;
    made.documents_ = options.documents;
    made.chat_ = run.chat();
    made.chat_template_ = run.chat_template();
    ASSIGN_OR_RETURN(made.loss_on_, ParseLossOn(run.has_loss_on() ? run.loss_on() : "assistant"));
    if (run.has_key()) made.key_ = run.key();
    if (run.has_tokenizer()) {
      made.folder_ = run.tokenizer();
      RETURN_IF_ERROR(made.Load(run.tokenizer()));
      made.files_ = made.loaded_->files;
      made.given_ = true;
    } else if (!checkpoint.empty()) {
      ASSIGN_OR_RETURN(const auto weights, OpenWeights(checkpoint));
      made.files_ = weights->tokenizer_files();
      made.folder_ = checkpoint;
      made.bytes_ = weights->tokenizer() == BytesTokenizerId();
      made.end_ids_ = weights->notes().end_ids;
      made.no_tokenizer_ = weights->no_tokenizer();
    }
    return made;
  }

  // Null: text is bytes.
  const FilesPointer& files() const { return files_; }
  bool given() const { return given_; }  // by --tokenizer

  // Opens a file of data; text is encoded.
  absl::StatusOr<TokenFile> Open(const std::string& path) {
    if (chat_ && !path.ends_with(".bin")) return OpenChats(path);
    const bool packed = HoldsPackedText(path);
    std::optional<TokenFile> file;
    if (!packed) {
      ASSIGN_OR_RETURN(file, OpenTokenFile(path, token_bytes_));
      const bool text = file->tokenizer == BytesTokenizerId() && file->token_bytes == 1;
      if (!text) return *std::move(file);
    }
    if (files_ == nullptr && !bytes_) {
      return InputError(
          path,
          "is text, and the tokenizer of " + folder_ + " is not known" +
              (no_tokenizer_.empty() ? "" : ": " + no_tokenizer_),
          "give the --tokenizer of the model; --tokenizer=bytes if a byte is a token");
    }
    const bool bytes = files_ == nullptr || files_->files.empty();
    if (bytes && !packed) {
      ASSIGN_OR_RETURN(const std::string doubt, DoubtText(file->file));
      WarnOfText(path, doubt);
      return *std::move(file);
    }
    RETURN_IF_ERROR(bytes ? LoadBytes() : LoadFromCheckpoint());
    return EncodeTextFile(path, loaded_->tokenizer, documents_, key_);
  }

  // Opens a file of chats, which are encoded.
  absl::StatusOr<TokenFile> OpenChats(const std::string& path) {
    if (files_ == nullptr || files_->files.empty()) {
      return InputError("--chat", "needs the tokenizer and the template of chats of a model",
                        "name its folder with --tokenizer");
    }
    RETURN_IF_ERROR(LoadFromCheckpoint());
    if (chats_.sources.empty()) {
      ASSIGN_OR_RETURN(chats_, ReadChatTemplate(folder_, chat_template_));
    }
    return EncodeChatFile(path, chats_, loaded_->tokenizer, loss_on_);
  }

  // The token that ends a document, by these files or else by the notes of the checkpoint.
  absl::StatusOr<std::optional<int32_t>> EndOfText() {
    if (files_ != nullptr && !files_->files.empty()) {
      RETURN_IF_ERROR(LoadFromCheckpoint());
      if (loaded_->tokenizer.end_of_text) return loaded_->tokenizer.end_of_text;
    }
    if (end_ids_.empty()) return std::nullopt;
    return static_cast<int32_t>(end_ids_[0]);
  }

 private:
  absl::Status Load(const std::string& spec) {
    ASSIGN_OR_RETURN(loaded_, LoadWithFiles(spec, chat_));
    if (end_of_text_id_ >= 0) loaded_->tokenizer.end_of_text = end_of_text_id_;
    return absl::OkStatus();
  }

  absl::Status LoadBytes() { return loaded_ ? absl::OkStatus() : Load("bytes"); }

  absl::Status LoadFromCheckpoint() {
    if (loaded_) return absl::OkStatus();
    RETURN_IF_ERROR(Load(TokenizerSpecIn(folder_)));
    loaded_->tokenizer.id = files_->id;  // the checkpoint verified the files, and has its name
    return absl::OkStatus();
  }

  FilesPointer files_;
  std::string folder_;  // of the checkpoint, or the user's tokenizer
  std::vector<int64_t> end_ids_;
  std::string no_tokenizer_;  // why the folder has none
  std::optional<LoadedTokenizer> loaded_;
  bool given_ = false;
  bool bytes_ = true;  // without files, text is bytes: there is no model that was made otherwise
  bool documents_ = false;
  bool chat_ = false;
  LossOn loss_on_ = LossOn::kAssistant;
  std::string chat_template_;  // a file; empty: that of the folder
  ChatTemplate chats_;         // read where chats need it
  std::string key_ = "text";
  int token_bytes_ = 0;
  int64_t end_of_text_id_ = -1;  // that the user names
};

absl::StatusOr<TokenFile> OpenFound(const FoundFiles& found, const std::string& path,
                                    TextTokenizer* tokenizer) {
  // Other files of a folder are no data that were meant.
  if (found.folder) RETURN_IF_ERROR(LookAtText(path).status());
  return tokenizer->Open(path);
}

absl::StatusOr<TokenMixture> OpenMixture(const std::string& flag, const FoundData& list,
                                         const ModelFacts& model, TextTokenizer* tokenizer) {
  std::vector<TokenDataset> datasets;
  std::vector<TokenFile> files;
  for (size_t i = 0; i < list.entries.size(); ++i) {
    for (const std::string& path : list.entries[i].paths) {
      ASSIGN_OR_RETURN(TokenFile file, OpenFound(list.entries[i], path, tokenizer));
      files.push_back(std::move(file));
    }
    if (list.weights.empty() && i + 1 < list.entries.size()) continue;
    ASSIGN_OR_RETURN(TokenDataset data,
                     TokenDataset::Make(std::exchange(files, {}), model.vocab, model.sequence));
    datasets.push_back(std::move(data));
  }
  for (const TokenDataset& data : datasets) {
    for (const std::string& empty : data.EmptyFiles()) {
      PrintNotice(absl::StrFormat("warning: --%s: %s is empty", flag, empty));
    }
  }
  if (list.weights.empty()) return TokenMixture(datasets[0]);
  return TokenMixture::Make(std::move(datasets), list.weights);
}

absl::StatusOr<FoundData> ListOfFlag(const std::string& flag, const std::string& text) {
  if (text.empty()) return InputError("--" + flag, "is missing", "write --" + flag + "=text.txt");
  return ExpandDataList(flag, text);
}

absl::StatusOr<MixtureSplit> OpenSplit(const proto::Run& run, const FoundData& list,
                                       const ModelFacts& model, TextTokenizer* tokenizer) {
  ASSIGN_OR_RETURN(const TokenMixture data, OpenMixture("data", list, model, tokenizer));
  if (run.eval_data().empty()) return data.Split(run.eval_fraction(), model.sequence);
  ASSIGN_OR_RETURN(const FoundData eval_list, ListOfFlag("eval_data", run.eval_data()));
  ASSIGN_OR_RETURN(const TokenMixture eval, OpenMixture("eval_data", eval_list, model, tokenizer));
  const TokenizerId trained = data.tokenizer(), evaluated = eval.tokenizer();
  if (trained.known() && evaluated.known() && !trained.SameAs(evaluated)) {
    return InputError(
        "--eval_data=" + run.eval_data(),
        "was made with tokenizer " + evaluated.Text() + ", but --data with " + trained.Text(),
        "make both with one tokenizer");
  }
  return MixtureSplit{data, eval};
}

// The files of the data's tokenizer, null where there are none, and its end of text.
struct FoundTokenizer {
  FilesPointer files;
  std::optional<int32_t> end_of_text;
};

// The files that `oneflow data` put beside a token file of tokenizer `id`.
absl::StatusOr<FoundTokenizer> FindBesideData(const FoundData& list, const TokenizerId& id) {
  for (const std::string& path : list.paths()) {
    if (!path.ends_with(".bin")) continue;
    ASSIGN_OR_RETURN(const std::optional<TokenFileMeta> meta, ReadTokenFileMeta(path));
    const std::string folder = TokenizerFolder(path), spec = TokenizerSpecIn(folder);
    if (!meta || !meta->tokenizer.known() || spec.empty()) continue;
    ASSIGN_OR_RETURN(LoadedTokenizer loaded, LoadWithFiles(spec));
    if (!loaded.tokenizer.id.SameAs(id)) {
      return InputError(folder,
                        "holds tokenizer " + loaded.tokenizer.id.Text() + ", but " + path +
                            " was made with " + id.Text(),
                        "make both again with `oneflow data`");
    }
    auto files = std::make_shared<TokenizerFiles>(*loaded.files);
    files->id = id;  // with the name that the data give it
    return FoundTokenizer{files, loaded.tokenizer.end_of_text};
  }
  return FoundTokenizer();
}

absl::StatusOr<FoundTokenizer> FindTokenizer(const proto::Run& run, const FoundData& list,
                                             const TokenizerId& id, bool documents,
                                             TextTokenizer& tokenizer) {
  const FilesPointer& files = tokenizer.files();
  if (tokenizer.given() && id.known() && !id.SameAs(files->id)) {
    return InputError(
        "--tokenizer=" + run.tokenizer(),
        "is tokenizer " + files->id.Text() + ", but --data was made with " + id.Text(),
        "leave it out, or make the data again with it");
  }
  FoundTokenizer found{files, std::nullopt};
  if (files == nullptr || !(tokenizer.given() || (id.known() && id.SameAs(files->id)))) {
    ASSIGN_OR_RETURN(found, FindBesideData(list, id));
    // Ids of unknown origin are those of the model.
    if (id.known()) return found;
  }
  if (documents && !found.end_of_text) {
    ASSIGN_OR_RETURN(found.end_of_text, tokenizer.EndOfText());
  }
  return found;
}

constexpr char kDefaultLongChats[] = "truncate";

// The token that ends a document.
absl::StatusOr<int32_t> FindEndOfText(const proto::Run& run, const FoundTokenizer& found,
                                      int64_t vocab) {
  const bool given = run.has_end_of_text_id();
  if (!given && !found.end_of_text) {
    return InputError("--documents", "it is not known which token of --data ends a document",
                      "name it with --end_of_text_id=ID, or give the --tokenizer of the data");
  }
  const int64_t id = given ? run.end_of_text_id() : *found.end_of_text;
  if (id >= 0 && id < vocab) return static_cast<int32_t>(id);
  return InputError(absl::StrCat(given ? "--end_of_text_id=" : "--documents: end of text ", id),
                    absl::StrCat("is no token of a vocabulary of ", vocab),
                    "name the token that ends a document with --end_of_text_id=ID");
}

std::string ValidationName(const proto::Run& run) {
  return run.eval_data().empty() ? "--data=" + run.data() : "--eval_data=" + run.eval_data();
}

absl::Status CheckEndOfTextActs(const proto::Run& run, bool documents) {
  if (documents || !run.has_end_of_text_id()) return absl::OkStatus();
  return InputError("--end_of_text_id", "acts on nothing: no documents are kept apart",
                    "add --documents (with --plan: compile with it), or leave it out");
}

// A warning where an end of documents that was asked for occurs in none of the data.
absl::StatusOr<std::string> CheckEndOfText(const std::string& name,
                                           const std::vector<TokenDataset>& data,
                                           int32_t end_of_text) {
  int64_t looked_at = 0, size = 0;
  for (const TokenDataset& part : data) {
    int64_t of_part = 0;
    ASSIGN_OR_RETURN(const bool found, part.Contains(end_of_text, &of_part));
    if (found) return std::string();
    looked_at += of_part;
    size += part.size();
  }
  return absl::StrCat("warning: --documents: token ", end_of_text, ", the end of a document, is ",
                      "none of the ", looked_at,
                      looked_at < size ? " tokens looked at of " : " tokens of ", name,
                      ", so all of it is one document; name the token that ends a document with "
                      "--end_of_text_id, or leave --documents out");
}

bool AnyPlain(const TokenMixture& data) {
  for (const TokenDataset& dataset : data.datasets()) {
    for (const TokenDataset::FilePart& part : dataset.FileParts()) {
      if (part.chats == nullptr) return true;
    }
  }
  return false;
}

bool AnyChats(const TokenMixture& data) {
  const auto& datasets = data.datasets();
  return std::any_of(datasets.begin(), datasets.end(),
                     [](const TokenDataset& dataset) { return dataset.HasChats(); });
}

// Chats say where they end.
absl::Status CheckEndOfTextIsNeeded(const proto::Run& run, bool plain) {
  if (plain || !run.has_end_of_text_id()) return absl::OkStatus();
  return InputError("--end_of_text_id", "acts on nothing: all of --data are chats, which have ends",
                    "leave it out");
}

absl::Status CheckChatsActs(const proto::Run& run, bool chats) {
  if (chats || run.long_chats().empty() || run.long_chats() == kDefaultLongChats) {
    return absl::OkStatus();
  }
  return InputError("--long_chats=" + run.long_chats(), "acts on nothing: --data has no chats",
                    "leave it out, or make the data by `oneflow data --chat`");
}

RecordOptions OptionsOfRecords(const proto::Run& run, int64_t sequence, bool documents,
                               int32_t end_of_text) {
  RecordOptions options{.sequence = sequence, .documents = documents, .end_of_text = end_of_text};
  if (run.long_chats() == "drop") options.long_chats = LongChats::kDrop;
  if (run.long_chats() == "error") options.long_chats = LongChats::kError;
  return options;
}

}  // namespace

absl::StatusOr<TrainingData> OpenTrainingData(const proto::Run& run, const ModelFacts& model,
                                              const DataOptions& options) {
  RETURN_IF_ERROR(CheckEndOfTextActs(run, options.documents));
  ASSIGN_OR_RETURN(const FoundData list, ListOfFlag("data", run.data()));
  ASSIGN_OR_RETURN(TextTokenizer tokenizer, TextTokenizer::Make(run, options));
  ASSIGN_OR_RETURN(MixtureSplit split, OpenSplit(run, list, model, &tokenizer));
  const TokenizerId id = split.train.tokenizer();
  ASSIGN_OR_RETURN(FoundTokenizer found,
                   FindTokenizer(run, list, id, options.documents, tokenizer));
  // Chats say where they end.
  const bool chats = AnyChats(split.train) || AnyChats(split.validation);
  RETURN_IF_ERROR(CheckChatsActs(run, chats));
  const bool plain = AnyPlain(split.train) || AnyPlain(split.validation);
  RETURN_IF_ERROR(CheckEndOfTextIsNeeded(run, plain));
  int32_t end_of_text = -1;
  if (options.documents && plain) {
    ASSIGN_OR_RETURN(end_of_text, FindEndOfText(run, found, model.vocab));
  }
  const RecordOptions of_records =
      OptionsOfRecords(run, model.sequence, options.documents, end_of_text);
  ASSIGN_OR_RETURN(SampledData train_samples,
                   SampledData::Make(split.train, of_records, run.has_epochs()));
  ASSIGN_OR_RETURN(SampledData validation_samples,
                   SampledData::Make(split.validation, of_records, /*epochs=*/false));
  std::vector<std::string> warnings;
  for (const auto& [name, data] : {std::pair("--data=" + run.data(), &split.train),
                                   std::pair(ValidationName(run), &split.validation)}) {
    if (end_of_text < 0 || data->size() == 0 || AnyChats(*data)) continue;
    ASSIGN_OR_RETURN(std::string warning, CheckEndOfText(name, data->datasets(), end_of_text));
    if (!warning.empty()) warnings.push_back(std::move(warning));
  }
  FilesPointer& files = found.files;
  // A tokenizer of bytes has none.
  const bool has_files = files != nullptr && !files->files.empty();
  if (!has_files && id.known() && !id.SameAs(BytesTokenizerId()) && !run.checkpoint_dir().empty()) {
    PrintNotice(
        absl::StrFormat("checkpoints will not contain the tokenizer %s: there are no files of it "
                        "beside the data; --tokenizer names them",
                        id.Text()));
  }
  return TrainingData{std::move(split.train),
                      std::move(split.validation),
                      id.known() || files == nullptr ? id : files->id,
                      has_files ? std::move(files) : nullptr,
                      options.documents && chats ? -1 : end_of_text,
                      std::move(warnings),
                      std::move(train_samples),
                      std::move(validation_samples),
                      options.documents && chats};
}

std::unique_ptr<TokenSource> TrainSource(const proto::Run& run, const TrainingData& data,
                                         int64_t batch) {
  if (run.has_epochs()) return data.train_samples.Epochs(run.seed(), batch);
  return data.train_samples.Draws(run.seed(), data.marks_documents);
}

int64_t RecordsOfPass(const TrainingData& data) {
  const RecordSet* records = data.validation_samples.records();
  return records == nullptr ? 0 : records->size();
}

std::unique_ptr<TokenSource> ValidationSource(const proto::Run& run, const TrainingData& data,
                                              int64_t batch) {
  if (data.validation.size() == 0) return nullptr;
  const RecordSet* records = data.validation_samples.records();
  if (records != nullptr) return records->Pass(batch);
  return data.validation_samples.Draws(run.seed(), data.marks_documents);
}

absl::Status CheckCountsLabels(const proto::Plan& plan, const TrainingData& data) {
  if (!data.train_samples.has_chats() && !data.validation_samples.has_chats()) {
    return absl::OkStatus();
  }
  for (const proto::Program& program : plan.program()) {
    for (const proto::Actor& actor : program.actor()) {
      const auto counted = actor.attr().find("counted");
      if (actor.kernel() == "report" && counted != actor.attr().end() && counted->second.b()) {
        return absl::OkStatus();
      }
    }
  }
  return InputError("plan of " + plan.model(),
                    "does not count labels, and not all labels of chats count",
                    "compile it with --masked_labels or --documents");
}

absl::StatusOr<EvaluationData> OpenEvaluationData(const proto::Run& run, const ModelFacts& model,
                                                  const DataOptions& options) {
  RETURN_IF_ERROR(CheckEndOfTextActs(run, options.documents));
  ASSIGN_OR_RETURN(const FoundData list, ListOfFlag("data", run.data()));
  ASSIGN_OR_RETURN(TextTokenizer tokenizer, TextTokenizer::Make(run, options));
  if (!list.weights.empty()) {
    PrintNotice("warning: the weights of --data act on nothing: each file is evaluated alone");
  }
  EvaluationData opened{.names = list.paths()};
  for (const FoundFiles& found : list.entries) {
    for (const std::string& path : found.paths) {
      ASSIGN_OR_RETURN(TokenFile file, OpenFound(found, path, &tokenizer));
      std::vector<TokenFile> files;
      files.push_back(std::move(file));
      ASSIGN_OR_RETURN(TokenDataset data,
                       TokenDataset::Make(std::move(files), model.vocab, /*sequence=*/1));
      opened.files.push_back(std::move(data));
      RETURN_IF_ERROR(CheckOneTokenizer(opened.files[0], opened.files.back()));
    }
  }
  const auto has_chats = [](const TokenDataset& file) { return file.HasChats(); };
  const bool chats = std::any_of(opened.files.begin(), opened.files.end(), has_chats);
  const bool plain = !std::all_of(opened.files.begin(), opened.files.end(), has_chats);
  RETURN_IF_ERROR(CheckChatsActs(run, chats));
  RETURN_IF_ERROR(CheckEndOfTextIsNeeded(run, plain));
  for (const TokenDataset& file : opened.files) {
    std::optional<RecordSet>& records = opened.records.emplace_back();
    if (!file.HasChats()) continue;
    ASSIGN_OR_RETURN(records, RecordSet::Make(file, OptionsOfRecords(run, model.sequence,
                                                                     options.documents, -1)));
    const std::string out = LeftOutText(records->counts());
    if (!out.empty()) PrintNotice(file.path() + ": " + out);
  }
  for (const TokenDataset& file : opened.files) {
    if (!opened.tokenizer.known()) opened.tokenizer = file.tokenizer();
  }
  ASSIGN_OR_RETURN(const FoundTokenizer found,
                   FindTokenizer(run, list, opened.tokenizer, options.documents, tokenizer));
  if (!opened.tokenizer.known() && found.files != nullptr) opened.tokenizer = found.files->id;
  if (!options.documents || !plain) return opened;
  ASSIGN_OR_RETURN(opened.end_of_text, FindEndOfText(run, found, model.vocab));
  if (chats) return opened;
  ASSIGN_OR_RETURN(const std::string warning,
                   CheckEndOfText("--data=" + run.data(), opened.files, opened.end_of_text));
  if (!warning.empty()) PrintNotice(warning);
  return opened;
}

TrainerData DataOfTrainer(const proto::Run& run, const TrainingData& data, const TokenSource* train,
                          const TokenSource* validation) {
  return {.train = train,
          .validation = validation,
          .tokens = data.train.size(),
          .tokenizer = data.tokenizer,
          .tokenizer_files = data.tokenizer_files,
          .mixture = data.train.parts(),
          .records = data.train_samples.id(),
          .end_of_text = data.end_of_text,
          .marks_documents = data.marks_documents,
          .train_name = "--data=" + run.data(),
          .validation_name = ValidationName(run)};
}

}  // namespace oneflow
