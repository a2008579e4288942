"""What columns are usually called in English, Chinese and Japanese. Pure.

A line is a field and the names of its column, the likeliest first; ``guess.py`` compares them without case, blanks
and punctuation.
"""

from __future__ import annotations

from collections.abc import Mapping

from annotation.domain.formats.base import ANNOTATIONS, PROMPTS, RESPONSES


def _read_names(text: str) -> dict[str, list[str]]:
    """The names by field; a line that begins with blanks carries on the one before."""
    names: dict[str, list[str]] = {}
    field = ""
    for line in text.strip().splitlines():
        first, colon, rest = line.partition(":")
        field = first if colon else field
        names.setdefault(field, []).extend((rest if colon else line).split())
    return names


_PROMPT = _read_names("""
prompt_id: prompt_id question_id query_id qid pid item_id sample_id conversation_id dialogue_id task_id custom_id
    提示编号 提示ID 问题编号 问题ID 题目编号
    題號 题号 题目ID 題目編號 問題編號 提示編號 对话编号 質問ID 問題番号 設問番号 プロンプトID
id: id idx index uid key no number id_ 编号 編號 序号 序號 番号 通し番号
prompt: prompt question query instruction input user_prompt prompt_text question_text goal behavior request user
    提示词 提示 提示語 提示詞 问题 問題 题目 題目 题干 提问 提問
    指令 输入 輸入 用户输入 查询 プロンプト 質問 質問文 設問
    問題文 指示 指示文 入力 入力文
second: input 输入 輸入 入力
first: instruction 指令 指示
content: content text 内容 內容 文本 テキスト 本文
messages: messages conversations conversation dialogue dialog turns chat 对话 對話 会話 対話
""")
_SHARED = _read_names("""
dimension: dimension category domain 维度 維度 类别 類別 分类 分類 一级维度 领域 領域 評価軸 カテゴリ カテゴリー 次元
subcomponent: subcomponent subcategory sub_category subdimension subtype 子维度 子維度 子类 子類 子类别
    二级维度 细分 细类
    小分类 サブカテゴリ サブカテゴリー 下位分類
language: language lang locale 语言 語言 语种 語種 言語
attack_method: attack_method attack attack_type 攻击方法 攻擊方法 攻击方式 攻击手段 攻击手法 攻擊手法 攻撃手法 攻撃方法
malice: malice malice_type 恶意 惡意 恶意类型 惡意類型 恶意形式 悪意
source: prompt_source data_source source_dataset 来源 來源 数据来源 資料來源 出处 出典
""")
_ANSWER = _read_names("""
response: response answer output completion reply generation generated_text model_output model_response prediction
    assistant 回答 回复 回復 回覆 答复 答覆 答案 响应 輸出 输出 模型回答 模型回复 模型回覆 模型输出 生成结果
    応答 返答 回答文 応答文 出力 出力文 レスポンス
model: model model_name model_id llm generator system_name 模型 模型名 模型名称 模型名稱 被测模型 大模型 モデル モデル名
collection: collection run run_id epoch 批次 采集 回复采集 収集
""")
_JUDGEMENT = _read_names("""
annotator: annotator annotator_id rater rater_id worker worker_id user_id coder labeler labeller reviewer judge
    evaluator participant_id 标注员 標註員 标注者 標註者 标注人 标注人员 评审 评分人 评估员 审核员 評価者 アノテーター
    注釈者 作業者
adjudicator: adjudicator 仲裁员 仲裁者 仲裁人 裁定者 裁定人
rationale: rationale reason comment comments explanation justification 理由 原因 说明 說明 备注 備註 评语 コメント 根拠
flags: flags flag 标记 標記 フラグ
seconds: seconds duration lead_time time_spent 用时 耗时 秒数 時間秒 所要時間 秒
at: at created_at time_created timestamp annotated_at submitted_at 时间 標註時間 标注时间 提交时间 日時 作成日時
round: round labelling_round labeling_round annotation_round wave 轮次 轮 輪次 标注轮次 ラウンド 回
evidence: evidence
labels: labels
texts: texts
criterion: criterion criteria 标准 标注项 标注标准 指标 評価項目 基準
label: label score rating value annotation verdict judgement judgment grade 标签 標籤 标注 標註 标注结果 得分 分数 分數
    评分 評分 打分 等级 评级 ラベル 評価 スコア 点数
""")
_OTHER = _read_names("""
rater: annotator rater coder worker labeler labeller reviewer judge expert evaluator
    标注员 標註員 标注者 标注人 评审 专家
    評価者 アノテーター
model: gpt chatgpt llama qwen claude gemini gemma mistral mixtral glm chatglm baichuan internlm deepseek ernie phi
    vicuna alpaca falcon bloom moss minimax hunyuan grok kimi doubao yi olmo palm bard davinci o1 o3 o4 command
    文心 通义 讯飞 星火 豆包 混元 智谱 百川 书生
""")
RESPONSE_WORDS, LABEL_WORDS, RATER_WORDS = _ANSWER["response"], _JUDGEMENT["label"], _OTHER["rater"]
MODEL_STEMS, ID_WORDS = _OTHER["model"], _PROMPT["id"]
SECOND_WORDS, FIRST_WORDS = _PROMPT["second"], _PROMPT["first"]
"""An instruction and what it is to be applied to, which are one prompt."""
_CHAT = {"messages": _PROMPT["messages"]}
_ASKED = {"prompt_id": _PROMPT["prompt_id"], "prompt": _PROMPT["prompt"]}
ALIASES: Mapping[str, Mapping[str, list[str]]] = {
    PROMPTS: {
        "id": ID_WORDS + _PROMPT["prompt_id"],
        "prompt": _PROMPT["prompt"] + _PROMPT["content"],
        **_CHAT,
        **_SHARED,
    },
    RESPONSES: {
        **_ASKED,
        **_ANSWER,
        "response": RESPONSE_WORDS + _PROMPT["content"],
        **_CHAT,
        **_SHARED,
    },
    ANNOTATIONS: {**_ASKED, **_ANSWER, **_CHAT, **_JUDGEMENT, **_SHARED},
}
